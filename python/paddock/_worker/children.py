"""Processes that are left in a slot that runs several calls at once.

What a plugin keeps on purpose (a pool of processes that all its calls use) stays. What can't stay:
processes that a cancelled call has started, and orphans, which lost the parent that the plugin had
started and were handed to the slot. Statuses are never taken: somebody may wait for them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from .calls import CURRENT, Call

_NOTHING: list[str] = []
_started: dict[int, Call | None] = {}
"""The children that this process has started itself, and for which call."""


def _noted(start: Callable[..., int]) -> Callable[..., int]:
    def noted(*args: Any, **kwargs: Any) -> int:
        pid = start(*args, **kwargs)
        if pid > 0:
            _started[pid] = CURRENT.get()
        return pid

    return noted


def install() -> None:
    """Notes every process that is started from now on. Once, in slots that run several calls."""
    import subprocess

    os.fork = _noted(os.fork)
    os.posix_spawn = _noted(os.posix_spawn)
    os.posix_spawnp = _noted(os.posix_spawnp)
    # Read as globals of their modules: by `subprocess`, and by `multiprocessing`.
    subprocess._posix_spawn = os.posix_spawn  # type: ignore[attr-defined]
    try:
        import _posixsubprocess

        _posixsubprocess.fork_exec = _noted(_posixsubprocess.fork_exec)
        subprocess._fork_exec = _posixsubprocess.fork_exec  # type: ignore[attr-defined]
    except ImportError:
        pass


def left(call: Call) -> list[str]:
    """What a call that just ended left, in words. What a cancelled one started is killed."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # the usual case, for a microsecond
        if _started:
            _started.clear()
        return _NOTHING
    except OSError:
        return _NOTHING
    children = _children("self")
    for pid in list(_started):
        if pid not in children:
            _started.pop(pid, None)
    found = []
    for pid in children:
        starter = _started.get(pid)
        ours = pid in _started
        if (ours and not (call.cancelled and starter is call)) or _has_ended(pid):
            continue
        found.append(_name(pid))
        if ours:
            _kill(pid)
    return [f"child processes still run: {', '.join(found[:10])}"] if found else _NOTHING


def _children(process: Any) -> list[int]:
    """The children of all threads of a process."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as listed:
                found.extend(map(int, listed.read().split()))
        except OSError:
            continue
    return found


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except OSError:
        return True


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return f"{comm.read().strip()} ({pid})"
    except OSError:
        return str(pid)


def _kill(pid: int) -> None:
    """Kills a process and those below it, from the top: nobody is left to start another."""
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            os.kill(one, signal.SIGSTOP)
            waiting.extend(_children(one))
            os.kill(one, signal.SIGKILL)
        except OSError:
            continue

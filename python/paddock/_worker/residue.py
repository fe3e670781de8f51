"""What a call left in its process: children, threads, timers, signal handlers, another working
directory, environment or open descriptors.

Looked at after every call, so each look costs about a microsecond. Descriptors are counted, and
the lowest free number is compared, after every call; one that was closed and replaced by another
is found by the whole list, which is compared every `LISTED_EVERY` calls. Threads that no Python
code started (a library's own pool) are no residue.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import gc
import os
import signal
import threading
import time
from typing import Any

from .descriptors import high_descriptor

GRACE = 0.02
"""Seconds given to threads, children and descriptors that are just ending."""
LISTED_EVERY = 256
_SIGNALS = range(1, 32)
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_NOTHING: list[str] = []


def _handlers() -> list[Any]:
    return list(map(_signal.getsignal, _SIGNALS))


def _blocked() -> set[int]:
    # The C function: `signal`'s own makes an enumeration's member of each.
    return _signal.pthread_sigmask(signal.SIG_BLOCK, ())  # type: ignore[no-any-return]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time one
        return str(number)


def _descriptors() -> dict[int, str]:
    """Open descriptors and what they are, without the one that the list is read through."""
    found = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return {}
    for name in names:
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


def _living_child() -> bool:
    """True if a child process is still there, ended ones reaped."""
    try:
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return True
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return False


def _children() -> list[str]:
    """The names of the living children."""
    names = []
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:
            pids = listed.read().split()
    except OSError:
        return ["?"]
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
                names.append(f"{comm.read().strip()} ({pid})")
        except OSError:
            names.append(pid)
    return names


class Residue:
    """What the process is like with no call in it."""

    def __init__(self) -> None:
        self._threads = _thread._count()
        self._handlers = _handlers()
        self._blocked = _blocked()
        self._cwd = os.getcwd()
        self._environ: Any = getattr(os.environ, "_data", os.environ)
        self._environment = dict(self._environ)
        self._folder: int | None = None
        self._count = 0
        try:
            folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._folder = high_descriptor(folder)
            self._count = os.fstat(self._folder).st_size  # since Linux 6.2; 0 before
        except OSError:
            self._folder = None
        if not self._count and self._folder is not None:
            os.close(self._folder)
            self._folder = None
        self._lowest = self._lowest_free()
        self._listed = _descriptors()
        self._calls = 0
        self._timer_was_set = False

    @staticmethod
    def _lowest_free() -> int:
        try:
            free = os.dup(2)
        except OSError:
            try:
                free = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return -1
        os.close(free)
        return free

    def close(self) -> None:
        """Gives its descriptor back."""
        if self._folder is not None:
            os.close(self._folder)

    def _same_descriptors(self) -> bool:
        try:
            if self._folder is not None and os.fstat(self._folder).st_size != self._count:
                return False
        except OSError:
            return False
        return self._lowest_free() == self._lowest

    def disarm(self) -> None:
        """Stops the call's timers: they must not go off in the worker's own code.

        What has gone off already, and whose handler hasn't run yet, raises in here or is over.
        """
        for timer in _TIMERS:
            if signal.getitimer(timer)[0]:
                self._timer_was_set = True
                signal.setitimer(timer, 0)

    def look(self) -> list[str]:
        """What the call that just ended left, in words; empty if nothing."""
        self._calls += 1
        timer_was_set, self._timer_was_set = self._timer_was_set, False
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = "a folder that is gone"
        if (
            not timer_was_set
            and cwd == self._cwd
            and _thread._count() <= self._threads
            and self._environ == self._environment
            and _handlers() == self._handlers
            and _blocked() == self._blocked
            and not _living_child()
            and self._same_descriptors()
            and (self._calls % LISTED_EVERY or _descriptors() == self._listed)
        ):
            return _NOTHING
        return self._tell(timer_was_set, cwd)

    def _tell(self, timer_was_set: bool, cwd: str) -> list[str]:
        out = []
        if timer_was_set:
            out.append("a timer was still set")
        if cwd != self._cwd:
            out.append(f'the working directory is "{cwd}", not "{self._cwd}"')
        out.extend(self._tell_environment())
        changed = [
            number
            for number, new, old in zip(_SIGNALS, _handlers(), self._handlers, strict=True)
            if new != old
        ]
        if changed:
            names = ", ".join(signal.Signals(number).name for number in changed)
            out.append(f"signal handlers are changed: {names}")
        blocked = _blocked()
        if blocked != self._blocked:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
            names = ", ".join(map(_signal_name, sorted(blocked ^ self._blocked)[:10]))
            out.append(f"signals are blocked or let through: {names}")
        until = time.monotonic() + GRACE
        while time.monotonic() < until:
            if _thread._count() <= self._threads and not _living_child():
                break
            time.sleep(0.001)
        threads = _thread._count() - self._threads
        if threads > 0:
            names = ", ".join(t.name for t in threading.enumerate()[1:][:10])
            told = "a thread still runs" if threads == 1 else f"{threads} threads still run"
            out.append(f"{told}: {names}")
        if _living_child():
            out.append(f"child processes still run: {', '.join(_children()[:10])}")
        out.extend(self._tell_descriptors())
        return out

    def _tell_environment(self) -> list[str]:
        if self._environ == self._environment:
            return []
        new, old = self._environ, self._environment
        names = sorted(os.fsdecode(k) for k in {*new, *old} if new.get(k) != old.get(k))
        return [f"the environment is changed: {', '.join(names[:10])}"]

    def _tell_descriptors(self) -> list[str]:
        now = _descriptors()
        if now != self._listed:
            gc.collect()  # what only a cycle still holds is nothing that was left open
            now = _descriptors()
        opened = [what for fd, what in now.items() if self._listed.get(fd) != what]
        closed = [what for fd, what in self._listed.items() if fd not in now]
        out = []
        if opened:
            out.append(f"descriptors were left open: {', '.join(opened[:10])}")
        if closed:
            out.append(f"descriptors were closed: {', '.join(closed[:10])}")
        return out

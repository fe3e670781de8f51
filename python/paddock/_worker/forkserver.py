"""Imports a plugin once and forks slots from itself.

It must stay as it is after the import: no thread, no loop, no client is started here. If the
import itself leaves threads running, a fork of it would inherit their locks without them: such a
plugin's slots are fresh interpreters that import it anew.
"""

from __future__ import annotations

import _thread
import faulthandler
import gc
import json
import os
import signal
import socket
import struct
import sys
from typing import Any

from ..results import GroupGraderResult
from . import load as loading
from . import frames, logs
from .load import Loaded, NotLoaded
from .slot import MODES, Order, run

_LENGTH = struct.Struct("<I")
_MESSAGE_LIMIT = 1 << 20
_DESCRIPTORS = 5


class Forkserver:
    """Serves the runtime's requests, one after the other."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._loaded: Loaded | None = None
        self._project = ""
        self._threads = 0

    def serve(self) -> None:
        """Serves until the runtime closes the socket."""
        while (found := self._receive()) is not None:
            message, descriptors = found
            try:
                self._send(self._do(message, descriptors))
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _receive(self) -> tuple[dict[str, Any], list[int]] | None:
        head, descriptors, _, _ = socket.recv_fds(self._server, _LENGTH.size, _DESCRIPTORS)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        while head and len(head) < _LENGTH.size:
            more = self._server.recv(_LENGTH.size - len(head))
            if not more:
                return None
            head += more
        if not head:
            return None
        (length,) = _LENGTH.unpack(head)
        if length > _MESSAGE_LIMIT:
            raise ValueError(f"a message of {length} bytes: at most {_MESSAGE_LIMIT} are allowed")
        body = b""
        while len(body) < length:
            more = self._server.recv(length - len(body))
            if not more:
                return None
            body += more
        return json.loads(body), list(descriptors)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode("ascii")
        self._server.sendall(_LENGTH.pack(len(body)) + body)

    def _do(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if message.get("op") == "load":
            return self._load(message["project"], message["function"])
        if message.get("op") == "fork":
            return self._fork(message, descriptors)
        return {"op": "failed", "stage": "request", "message": f"no such op: {message.get('op')}"}

    def _load(self, project: str, function: str) -> dict[str, Any]:
        try:
            loaded = loading.load(project, function)
        except NotLoaded as reason:
            return {
                "op": "failed",
                "stage": reason.stage,
                "message": reason.message,
                "traceback": reason.traceback,
            }
        self._loaded = loaded
        self._project = project
        self._threads = _threads()
        logs.reinstall()
        flush()
        gc.collect()
        gc.freeze()
        return {
            "op": "loaded",
            "kind": loaded.kind,
            "is_async": loaded.is_async,
            "name": loaded.name,
            "runtime": loaded.runtime,
        }

    def _fork(self, message: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        number = message.get("slot", 0)
        if self._loaded is None or len(descriptors) != _DESCRIPTORS or message["mode"] not in MODES:
            told = f"a slot needs a loaded plugin, {_DESCRIPTORS} descriptors and a mode of {MODES}"
            return {"op": "failed", "stage": "request", "message": told}
        order = Order(
            number,
            message["mode"],
            int(message.get("capacity", 1)),
            message.get("content_format", "as_is"),
            int(message.get("frame_limit", frames.LIMIT)),
            *descriptors,
        )
        flush()
        try:
            pid = self._fork_twice(order)
        except OSError as error:
            return {"op": "failed", "stage": "fork", "message": str(error)}
        return {"op": "forked", "slot": number, "pid": pid}

    def _fork_twice(self, order: Order) -> int:
        """Forks a child that forks the slot and ends: the slot belongs to the reaper above."""
        assert self._loaded is not None
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            slot = -1
            try:
                os.close(reading)
                slot = os.fork()
                if slot == 0:
                    os.close(writing)
                    self._server.close()
                    self._become(order)
            except OSError:
                pass
            finally:
                os.write(writing, slot.to_bytes(8, "little", signed=True))
                os._exit(0)
        os.close(writing)
        try:
            with open(reading, "rb") as pipe:
                told = pipe.read(8)
        finally:
            os.waitpid(child, 0)
        pid = int.from_bytes(told, "little", signed=True) if len(told) == 8 else -1
        if pid < 0:
            raise OSError("the slot's process can't be made: no process or no memory is left")
        return pid

    def _become(self, order: Order) -> None:
        """Is the slot. Never returns."""
        try:
            if self._threads:
                _exec(order, self._project, self._loaded)
            faulthandler.unregister(signal.SIGUSR2)
            if self._loaded is not None:
                run(order, self._loaded)
        finally:
            os._exit(70)


def _threads() -> int:
    """Threads beside this one, whoever started them."""
    try:
        return len(os.listdir("/proc/self/task")) - 1
    except OSError:
        return _thread._count()


def flush() -> None:
    """Writes out what is printed, so that no fork prints it again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def _exec(order: Order, project: str, loaded: Loaded | None) -> None:
    """Becomes a fresh interpreter that imports the plugin and is the slot."""
    if loaded is None:
        return
    for descriptor in order.descriptors():
        os.set_inheritable(descriptor, True)
    told = {**vars(order), "project": project, "function": loaded.reference}
    program = [sys.executable, "-P", "-m", "paddock._worker", "--slot", json.dumps(told)]
    os.execv(sys.executable, program)


def be_slot(text: str) -> None:
    """Is the slot that `_exec` ordered."""
    told = json.loads(text)
    project, function = told.pop("project"), told.pop("function")
    order = Order(**told)
    for descriptor, standard in ((order.stdout, 1), (order.stderr, 2)):
        os.dup2(descriptor, standard)
    for descriptor in order.descriptors():
        os.set_inheritable(descriptor, False)
    prepare()
    loaded = loading.load(project, function)
    logs.reinstall()
    flush()
    run(order, loaded)


_BODY = (
    b'{"context":{},"sample":{"messages":[{"role":"user","content":"a"}]},"trajectories":['
    b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"usage":{}}]}'
)


def warm() -> None:
    """Loads what slots need and runs their way, so that they share it instead of redoing it.

    Python adapts code that runs often, in place: what is adapted here costs no slot memory.
    """
    from . import answer, codec, loop_slot, process_slot, request, residue, thread_slot  # noqa: F401

    process_slot.flush_c_streams()()
    clean = residue.Residue()
    for _ in range(20):
        request.arguments(codec.decode(_BODY), "group_grader", False)
        answer.of_result(GroupGraderResult(rewards=[1.0]), "group_grader")
        clean.look()
    clean.close()


def prepare() -> None:
    """What comes before an import: streams, logging, one thread for numeric libraries."""
    loading.one_thread_each()
    logs.install()
    faulthandler.register(signal.SIGUSR2, file=2, all_threads=True)
    faulthandler.enable(file=2)  # an import that crashes says where
    sys.argv[:] = [""]
    warm()


def main(descriptor: int) -> None:
    """Is the forkserver on an inherited socket."""
    server = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)
    server.setblocking(True)
    prepare()
    try:
        Forkserver(server).serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the runtime is gone

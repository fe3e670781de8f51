"""A slot that runs one call at a time, on the process's main thread.

What a call leaves in the process is told with its answer, and the runtime replaces the slot.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import answer, frames, logs, request, seeds, stacks
from .calls import Call, Early, set_only
from .control import Dump
from .load import Loaded
from .residue import Residue
from .slot import Wires


def flush_c_streams() -> Callable[[], Any]:
    """What flushes the output that C code of this process still holds."""
    try:
        import ctypes

        flush = ctypes.CDLL(None).fflush
        flush.argtypes = [ctypes.c_void_p]
        flush(None)
    except (ImportError, OSError, AttributeError):
        return lambda: None
    return lambda: flush(None)


class ProcessSlot:
    """Serves calls one after the other."""

    def __init__(self, wires: Wires, loaded: Loaded, parts: bool) -> None:
        self._wires = wires
        self._loaded = loaded
        self._parts = parts
        self._pid = os.getpid()
        self._call: Call | None = None
        self._main = threading.get_ident()
        self._early = Early()
        self._streams = (sys.stdout, sys.stderr)
        self._flush_c = flush_c_streams()

    def serve(self) -> None:
        """Serves until the data socket is closed."""
        self._wires.thread.start(self)
        incoming = frames.Incoming(self._wires.data)
        self._residue = Residue()
        while (found := incoming.next()) is not None:
            kind, call, attempt, body = found
            if kind == frames.CALL:
                self._serve(Call(call, attempt), body)

    def _serve(self, call: Call, body: Any) -> None:
        self._call = call
        set_only(call)
        try:
            made = self._run(call, body)
            self._residue.disarm()
        except BaseException as error:  # a plugin's timer that went off after its function
            self._residue.disarm()
            made = answer.of_error(error)
        if made.warning:
            logs.line(call, "warning", "paddock", made.warning)
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the plugin forked came back out of its function
        left = self._settle()
        logs.end(call)
        self._call = None
        set_only(None)
        self._wires.answer(call.id, call.attempt, made.with_residue(left))

    def _run(self, call: Call, body: Any) -> answer.Answer:
        if self._early.take((call.id, call.attempt)):
            return answer.of_error(asyncio.CancelledError("cancelled before it began"))
        try:
            loaded, given = request.read(body, self._loaded, self._parts)
            seeds.seed(given[0], loaded.reference)
            result = contextvars.copy_context().run(loaded.function, *given)
            if hasattr(type(result), "__await__"):
                result = asyncio.run(_awaited(result))
            return answer.of_result(result, loaded.kind)
        except BaseException as error:
            return answer.of_error(error)

    def _settle(self) -> list[str]:
        """Flushes the call's output, and looks for what the call left."""
        left = []
        for name, stream in zip(("stdout", "stderr"), self._streams, strict=True):
            used = getattr(sys, name)
            try:
                if used is not stream:
                    setattr(sys, name, stream)
                    if used is not None:
                        used.flush()
                stream.flush()
            except Exception as error:
                left.append(f"{name} can't be written: {type(error).__name__}")
        self._flush_c()
        shared = sys.modules.get("paddock.clients")
        if shared is not None and shared.in_use():
            shared.close_idle()
        found = self._residue.look()
        return left + found if left else found

    def cancel(self, call: int, attempt: int) -> None:
        """A call that waits in the socket isn't begun; one that runs is ended by the runtime."""
        running = self._call
        if running is None or (running.id, running.attempt) != (call, attempt):
            self._early.add((call, attempt))

    def drain(self) -> None:
        """The reader finds the socket's end."""

    def dump(self, call: int, attempt: int) -> Dump:
        """The stack of the main thread, if the call is the one that runs."""
        running = self._call
        if running is None or (running.id, running.attempt) != (call, attempt):
            return Dump(running=running.id if running else 0)
        told = stacks.thread(self._main)
        stacks.other_threads(told, self._main)
        return Dump(told.text(), running=running.id, place=told.place)


async def _awaited(result: Any) -> Any:
    return await result

"""A slot that runs several calls at once, each on a thread; module state is shared between them.

The main thread only reads. A thread can't be ended from outside: a call that is cancelled goes on
until it comes back by itself, and only then is its place free.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import sys
import threading
from typing import Any

from . import answer, children, executors, frames, logs, request, seeds, stacks
from .calls import CURRENT, Call, Early
from .control import Dump
from .load import Loaded
from .slot import Wires


class ThreadSlot:
    """Serves up to `capacity` calls at once; more wait for a thread."""

    def __init__(self, wires: Wires, loaded: Loaded, parts: bool, capacity: int) -> None:
        self._wires = wires
        self._loaded = loaded
        self._parts = parts
        self._capacity = max(1, capacity)
        self._calls: dict[tuple[int, int], Call] = {}
        self._jobs: queue.SimpleQueue[tuple[Call, Any]] = queue.SimpleQueue()
        self._early = Early()
        self._threads = 0
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._empty = threading.Condition(self._lock)
        self._context = contextvars.copy_context()

    def serve(self) -> None:
        """Serves until the data socket is closed, and until the calls are done that came before."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, logs.Stream):
                stream.into_lines()
        executors.install()
        children.install()
        self._wires.thread.start(self)
        incoming = frames.Incoming(self._wires.data)
        while (found := incoming.next()) is not None:
            kind, call, attempt, body = found
            if kind == frames.CALL:
                self._take(Call(call, attempt), bytes(body))
        with self._lock:
            self._empty.wait_for(lambda: not self._calls)

    def _take(self, call: Call, body: bytes) -> None:
        with self._lock:
            self._calls[call.id, call.attempt] = call
            call.cancelled = self._early.take((call.id, call.attempt))
            busy = len(self._calls)
            grow = self._threads < self._capacity and busy > self._threads
            if grow:
                self._threads += 1
        if grow:
            name = f"paddock-call-{self._threads}"
            try:
                threading.Thread(target=self._work, name=name, daemon=True).start()
            except RuntimeError as error:  # no more threads can be had
                with self._lock:
                    self._threads -= 1
                if not self._threads:
                    self._finish(call, answer.of_error(error))
                    return
        self._jobs.put((call, body))

    def _work(self) -> None:
        while True:
            call, body = self._jobs.get()
            call.thread = threading.get_ident()
            context = self._context.copy()
            context.run(CURRENT.set, call)
            try:
                made = context.run(self._run, call, body)
            except BaseException as error:
                made = answer.of_error(error)
            call.thread = None
            self._finish(call, made)
            del call, body, context, made

    def _run(self, call: Call, body: bytes) -> answer.Answer:
        if call.cancelled:
            return answer.of_error(asyncio.CancelledError("cancelled before it began"))
        try:
            loaded, given = request.read(body, self._loaded, self._parts)
            seeds.seed(given[0], loaded.reference)
            result = loaded.function(*given)
            if hasattr(type(result), "__await__"):
                result = asyncio.run(_awaited(result))
            return answer.of_result(result, loaded.kind)
        except BaseException as error:
            return answer.of_error(error)

    def _finish(self, call: Call, made: answer.Answer) -> None:
        if made.warning:
            logs.line(call, "warning", "paddock", made.warning)
        logs.end(call)
        body = made.with_residue(children.left(call))
        with self._sending:
            self._wires.answer(call.id, call.attempt, body)
        with self._lock:
            self._calls.pop((call.id, call.attempt), None)
            if not self._calls:
                self._empty.notify_all()

    def cancel(self, call: int, attempt: int) -> None:
        """A call that waits for a thread isn't begun."""
        with self._lock:
            running = self._calls.get((call, attempt))
            if running is None:
                self._early.add((call, attempt))
            else:
                running.cancelled = True

    def drain(self) -> None:
        """The reader finds the socket's end, and waits for the calls."""

    def dump(self, call: int, attempt: int) -> Dump:
        """The stack of the call's thread."""
        running = self._calls.get((call, attempt))
        if running is None:
            return Dump()
        if running.thread is None:
            return Dump("(waits for a thread)")
        told = stacks.thread(running.thread)
        return Dump(told.text(), running=call, place=told.place)


async def _awaited(result: Any) -> Any:
    return await result

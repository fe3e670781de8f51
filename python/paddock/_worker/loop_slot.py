"""A slot that runs many calls at once on one event loop, a task each.

The socket is read by a protocol, not by streams; answers of one turn of the loop go out in one
write. A cancelled call is answered once nothing of it runs any more: neither its task, nor the
tasks and executor jobs that it started.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import sys
import threading
from typing import Any

from . import answer, children, executors, frames, logs, request, seeds, stacks
from .calls import CURRENT, INSTANCE, Call, Early
from .control import Dump
from .load import Loaded
from .slot import Wires

PROBE = 0.1
"""Seconds that the loop may take to answer the control thread before it counts as blocked."""


class _Executor(concurrent.futures.ThreadPoolExecutor):
    """The loop's threads; a job belongs to the call that asked for it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        job = super().submit(fn, *args, **kwargs)
        call = CURRENT.get()
        if call is not None and call.children is not None:
            call.children.add(job)
            job.add_done_callback(call.children.discard)
        return job


class _Task(asyncio.Task[Any]):
    """A task that belongs to a call, and that no other call cancels while that one runs.

    What cancels "all tasks" of the loop, as scripts do at their end, means its own.
    """

    owner: Call | None = None

    def cancel(self, msg: Any = None) -> bool:
        """Cancels the task, unless it is a neighbour's."""
        owner, asking = self.owner, CURRENT.get()
        if owner is not None and asking is not None and owner is not asking and owner.task:
            told = "a task of another call was to be cancelled, which goes on"
            logs.line(asking, "warning", "paddock", told)
            return False
        return super().cancel(msg)


def _make_task(loop: Any, coroutine: Any, **options: Any) -> Any:
    """Makes a task that its call knows of."""
    task = _Task(coroutine, loop=loop, **options)
    task.owner = call = CURRENT.get()
    if call is not None and call.children is not None:
        call.children.add(task)
        task.add_done_callback(call.children.discard)
    return task


class LoopSlot(asyncio.BufferedProtocol):
    """Serves calls as they come."""

    def __init__(self, wires: Wires, loaded: Loaded, parts: bool) -> None:
        self._wires = wires
        self._loaded = loaded
        self._parts = parts
        self._frames = frames.Frames()
        self._calls: dict[tuple[int, int], Call] = {}
        self._tasks: dict[Any, Call] = {}
        self._early = Early()
        self._out: list[bytes] = []
        self._main = threading.get_ident()
        self._pid = os.getpid()
        self._context = contextvars.copy_context()
        self._ended = False
        self._over = False

    def serve(self) -> None:
        """Serves until the data socket is closed, and until the calls are done that came before."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, logs.Stream):
                stream.into_lines()
        executors.install()
        children.install()
        self._loop = loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.set_default_executor(_Executor(thread_name_prefix="asyncio"))
        loop.set_task_factory(_make_task)
        self._wires.thread.start(self)
        connecting = loop.create_task(
            loop.create_unix_connection(lambda: self, sock=self._wires.data)
        )
        while not self._over:
            try:
                loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:  # a plugin's own task raised it
                told = f"a task ended with {type(error).__name__}: the event loop goes on"
                logs.line(INSTANCE, "warning", "paddock", told)
            except BaseException as error:  # nothing else comes out: a plugin broke the loop itself
                told = f"the event loop can't go on: {type(error).__name__}: {error}"
                logs.line(INSTANCE, "error", "paddock", told)
                os._exit(70)
        del connecting  # a task that nobody holds may vanish

    # The protocol: called by the loop.

    def connection_made(self, transport: Any) -> None:
        """The socket is the loop's now."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Begins the calls that came."""
        self._frames.came(nbytes)
        while (found := self._frames.take()) is not None:
            kind, call, attempt, body = found
            if kind == frames.CALL:
                self._begin(Call(call, attempt), body)

    def eof_received(self) -> bool:
        """No more calls: the runtime drains the slot, or is gone, which the control thread sees."""
        self._ended = True
        self._end()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The runtime is gone."""
        os._exit(0)

    # Calls.

    def _begin(self, call: Call, body: Any) -> None:
        key = (call.id, call.attempt)
        self._calls[key] = call
        if self._early.take(key):
            early = asyncio.CancelledError("cancelled before it began")
            self._answer(call, answer.of_error(early))
            return
        try:
            loaded, given = request.read(body, self._loaded, self._parts)
        except BaseException as error:
            self._answer(call, answer.of_error(error))
            return
        context = self._context.copy()
        context.run(CURRENT.set, call)
        call.children = set()
        task = self._loop.create_task(self._run(call, loaded, given), context=context)
        task.owner = call
        call.task = task
        self._tasks[task] = call

    async def _run(self, call: Call, loaded: Loaded, given: Any) -> None:
        try:
            seeds.seed(given[0], loaded.reference)
            result = loaded.function(*given)
            if hasattr(type(result), "__await__"):
                result = await result
            made = answer.of_result(result, loaded.kind)
        except BaseException as error:
            made = answer.of_error(error)
            del error
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the plugin forked came back out of its function
        self._tasks.pop(call.task, None)
        call.task = None
        if call.cancelled and call.children:
            self._when_all_done(call, made)
        else:
            self._answer(call, made)

    def _when_all_done(self, call: Call, made: answer.Answer) -> None:
        """Answers a cancelled call once nothing that it started runs any more."""

        def one_done(_: Any) -> None:
            self._loop.call_soon_threadsafe(self._when_all_done, call, made)

        for child in list(call.children or ()):
            if not child.done():
                child.add_done_callback(one_done)
                return
        self._answer(call, made)

    def _answer(self, call: Call, made: answer.Answer) -> None:
        if made.warning:
            logs.line(call, "warning", "paddock", made.warning)
        logs.end(call)
        if not self._out:
            self._loop.call_soon(self._flush)
        body = made.with_residue(children.left(call))
        self._out.append(frames.frame(frames.ANSWER, call.id, call.attempt, body))
        self._calls.pop((call.id, call.attempt), None)
        if self._ended:
            self._end()

    def _flush(self) -> None:
        out, self._out = self._out, []
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _end(self) -> None:
        """Ends the loop once every call is answered and every answer is out."""
        if self._calls:
            return
        if self._out or self._transport.get_write_buffer_size():
            self._loop.call_later(0.005, self._end)
        else:
            self._over = True
            self._loop.stop()

    # Called by the control thread.

    def cancel(self, call: int, attempt: int) -> None:
        """Cancels the call's task and the tasks that it started."""
        self._loop.call_soon_threadsafe(self._cancel, (call, attempt))

    def _cancel(self, key: tuple[int, int]) -> None:
        call = self._calls.get(key)
        if call is None:
            self._early.add(key)
            return
        call.cancelled = True
        for child in list(call.children or ()):
            child.cancel()
        if call.task is not None:
            call.task.cancel()

    def drain(self) -> None:
        """The protocol finds the socket's end."""

    def dump(self, call: int, attempt: int) -> Dump:
        """The call's await chain; if the loop is blocked, where."""
        wanted = self._calls.get((call, attempt))
        blocked = not self._turns()
        running = self._running() if blocked else None
        told = stacks.Told()
        if wanted is not None and (wanted is not running or not blocked):
            self._tell(told, wanted)
        if blocked:
            whose = "" if running is None else " by another call"
            stack = stacks.thread(self._main)
            if running is wanted and running is not None:
                whose = " by this call"
                told.place = stack.place
            blocked_by = f"the event loop is blocked{whose}, in code that does not await:"
            told.lines[:0] = [blocked_by, stack.text()]
        return Dump(told.text(), blocked, running.id if running else 0, told.place)

    def _tell(self, told: stacks.Told, call: Call) -> None:
        """Where the call's task stands, and where the tasks that it started do."""
        if call.task is not None:
            stacks.chain(told, call.task)
        place = told.place
        children = [
            child
            for child in list(call.children or ())
            if isinstance(child, asyncio.Task) and id(child) not in told.tasks
        ]
        for child in children[: stacks.CHAINS_LIMIT]:
            told.lines.append(f"{child.get_name()}, a task that it started:")
            stacks.chain(told, child, "  ")
        told.place = place or told.place

    def _turns(self) -> bool:
        """True if the loop gets to its next turn in time."""
        turned = threading.Event()
        self._loop.call_soon_threadsafe(turned.set)
        return turned.wait(PROBE)

    def _running(self) -> Call | None:
        """The call whose step the loop runs now."""
        task = asyncio.current_task(self._loop)
        if task is None:
            return None
        found = self._tasks.get(task)
        if found is not None:
            return found
        for call in list(self._calls.values()):
            if task in (call.children or ()):
                return call
        return None

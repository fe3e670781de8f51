"""The control socket's thread: it answers while the call runs, so that a full data socket or a
busy call holds up no cancellation and no stack.

It ends the process when the runtime has closed the data or the control socket.
"""

from __future__ import annotations

import _thread
import os
import select
import socket
from dataclasses import dataclass
from typing import Protocol

from . import codec, frames
from .raised import cut
from .sender import Sender


STACK_LIMIT = 256 << 10
"""Characters of a stack that are told."""


@dataclass
class Dump:
    """The body of STACKS."""

    stack: str = ""
    blocked_loop: bool = False
    running: int = 0
    """The call that runs now, where that is known."""
    place: str = ""
    """The innermost place in the plugin's own files, `judge.py:12 in score`."""


class Slot(Protocol):
    """What the control thread asks of a slot, from its own thread."""

    def cancel(self, call: int, attempt: int) -> None:
        """The call is over for the runtime."""

    def drain(self) -> None:
        """No call will come any more: finish what runs, then exit."""

    def dump(self, call: int, attempt: int) -> Dump:
        """Where a call stands."""


class Control:
    """Serves the control socket of one slot."""

    def __init__(self, control: socket.socket, data: socket.socket, sender: Sender) -> None:
        self._control = control
        self._data = data
        self._sender = sender
        self._draining = False

    def start(self, slot: Slot) -> None:
        """Starts the thread.

        It isn't one of `threading`'s: a plugin that counts its threads finds its own.
        """
        self._slot = slot
        running = _thread.allocate_lock()
        running.acquire()
        _thread.start_new_thread(self._run, (running,))
        running.acquire()  # it counts as a thread only once it runs

    def _run(self, running: _thread.LockType) -> None:
        running.release()
        incoming = frames.Frames()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._data, 0)
        control = self._control.fileno()
        try:
            while True:
                for descriptor, events in poll.poll():
                    if descriptor != control or not events & select.POLLIN:
                        os._exit(0)  # the data socket is closed, or either is gone
                    count = self._control.recv_into(incoming.space())
                    if not count:
                        os._exit(0)
                    incoming.came(count)
                    while (found := incoming.take()) is not None:
                        self._serve(*found[:3])
        except (OSError, ValueError, frames.BrokenFrame):
            os._exit(70)

    def _serve(self, kind: int, call: int, attempt: int) -> None:
        if kind == frames.CANCEL:
            self._slot.cancel(call, attempt)
        elif kind == frames.DRAIN:
            self._draining = True
            self._slot.drain()
            # What is in the socket already is still read; then the reader finds its end.
            self._data.shutdown(socket.SHUT_RD)
        elif kind == frames.DUMP:
            try:
                told = self._slot.dump(call, attempt)
            except Exception as error:
                told = Dump(f"(no stack: {type(error).__name__}: {error})")
            told.stack = cut(told.stack, STACK_LIMIT)
            body = codec.encode(vars(told))
            self._sender.send(frames.frame(frames.STACKS, call, attempt, body))

"""Sends frames on the control socket: whole, in order, from any thread and from signal handlers.

It never waits for long: a runtime that doesn't read loses log lines, not the call.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque

PATIENCE = 2000
"""Milliseconds that a frame may wait for room before it is dropped."""


class Sender:
    """The writing end of the control socket."""

    def __init__(self, target: socket.socket) -> None:
        self._socket = target
        self._waiting: deque[bytes] = deque()
        self._lock = threading.Lock()
        self._broken = False
        self._stalled = False
        self.dropped = 0
        """Frames that nobody took."""

    def send(self, frame: bytes) -> None:
        """Sends a frame, or leaves it to the thread that is sending just now."""
        self._waiting.append(frame)
        while self._waiting and self._lock.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._lock.release()

    def flush(self) -> None:
        """Returns once every frame that was given is on its way. Not for signal handlers."""
        if self._waiting or self._lock.locked():
            with self._lock:
                self._drain()

    def _drain(self) -> None:
        while self._waiting:
            try:
                frame = self._waiting.popleft()
            except IndexError:
                return
            if not self._broken and not self._write(frame):
                self.dropped += 1

    def _write(self, frame: bytes) -> bool:
        view = memoryview(frame)
        sent = 0
        while sent < len(view):
            try:
                sent += self._socket.send(view[sent:], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT)
                if not poll.poll(0 if self._stalled and not sent else PATIENCE):
                    self._stalled = True  # until it reads again no frame waits
                    if sent:  # half a frame is out: nothing sensible can follow it
                        self._broken = True
                    return False
            except (OSError, ValueError):
                self._broken = True
                return False
        self._stalled = False
        return True

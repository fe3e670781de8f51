"""Frames of the wire: how they are cut out of a byte stream, and put into one.

Lengths are checked before anything is allocated for them.
"""

from __future__ import annotations

import socket
import struct

VERSION = 1
CALL, ANSWER, HELLO = 1, 2, 3
CANCEL, DRAIN, DUMP, STACKS, LOG = 10, 11, 12, 13, 14

LIMIT = 64 << 20
"""The greatest length of a frame; a slot is told its own when it is forked."""
USUAL = 1 << 18
"""Bytes of a reader's buffer, unless a frame needs more."""

_HEADER = struct.Struct("<IBQI")
_LENGTH = struct.Struct("<I")
OVERHEAD = _HEADER.size - _LENGTH.size


def limit(length: int) -> None:
    """Sets the greatest length of a frame in this process."""
    global LIMIT
    LIMIT = length


class BrokenFrame(Exception):
    """The peer sent what is no frame: there is nothing to go on with."""


def _judge(length: int) -> None:
    """The same bounds as the runtime's."""
    if not OVERHEAD <= length <= LIMIT:
        raise BrokenFrame(f"a frame of {length} bytes: allowed are {OVERHEAD} to {LIMIT}")


def frame(kind: int, call: int, attempt: int, body: bytes) -> bytes:
    """One frame."""
    return _HEADER.pack(OVERHEAD + len(body), kind, call, attempt) + body


class Frames:
    """Cuts frames out of what arrives.

    Whoever reads puts bytes into `space()`, says how many with `came(n)`, and takes frames with
    `take()` until it gives `None`. A body is a view of the buffer: good until the next `space()`.
    """

    __slots__ = ("_buffer", "_end", "_start", "_view")

    def __init__(self) -> None:
        self._buffer = bytearray(USUAL)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0

    def space(self) -> memoryview:
        """Where the next bytes go; never empty."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            if len(self._buffer) > USUAL:
                self._replace(USUAL)
            return self._view
        wanted = self._wanted()
        size = len(self._buffer)
        if start + wanted > size or end == size:
            if wanted > size:
                self._replace(wanted)
            else:
                self._buffer[: end - start] = self._buffer[start:end]
                self._start, self._end = 0, end - start
        return self._view[self._end :]

    def _wanted(self) -> int:
        """Bytes of the frame at the start, as far as they are known."""
        if self._end - self._start < _LENGTH.size:
            return _HEADER.size
        (length,) = _LENGTH.unpack_from(self._buffer, self._start)
        _judge(length)
        return _LENGTH.size + int(length)

    def _replace(self, size: int) -> None:
        held = bytes(self._view[self._start : self._end])
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)
        self._buffer[: len(held)] = held
        self._start, self._end = 0, len(held)

    def came(self, count: int) -> None:
        """So many bytes were put into `space()`."""
        self._end += count

    def take(self) -> tuple[int, int, int, memoryview] | None:
        """The next whole frame: kind, call id, attempt, body."""
        start = self._start
        held = self._end - start
        if held < _HEADER.size:
            return None
        length, kind, call, attempt = _HEADER.unpack_from(self._buffer, start)
        _judge(length)
        whole = 4 + length
        if held < whole:
            return None
        self._start = start + whole
        return kind, call, attempt, self._view[start + 17 : start + whole]


class Incoming:
    """Frames from a blocking socket."""

    __slots__ = ("_frames", "_socket")

    def __init__(self, source: socket.socket) -> None:
        self._socket = source
        self._frames = Frames()

    def next(self) -> tuple[int, int, int, memoryview] | None:
        """The next frame, waited for; `None` once the peer has closed."""
        frames = self._frames
        while True:
            found = frames.take()
            if found is not None:
                return found
            count = self._socket.recv_into(frames.space())
            if not count:
                return None
            frames.came(count)

"""The call that code runs for, and what is kept of it while it runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any


class Call:
    """One attempt of one call in this process. Id 0 stands for the instance itself."""

    __slots__ = (
        "attempt",
        "cancelled",
        "children",
        "cut_characters",
        "cut_lines",
        "id",
        "kept_characters",
        "kept_lines",
        "partial",
        "since",
        "task",
        "thread",
    )

    def __init__(self, call: int, attempt: int) -> None:
        self.id = call
        self.attempt = attempt
        self.cancelled = False
        self.kept_lines = 0
        self.kept_characters = 0
        self.cut_lines = 0
        self.cut_characters = 0
        self.partial: dict[tuple[str, int], str] | None = None
        """Output without its line end yet, by stream and thread."""
        self.since = 0.0
        self.thread: int | None = None
        self.task: Any = None
        self.children: set[Any] | None = None
        """Tasks and executor jobs that the call has started and that aren't done."""


class Early:
    """Cancellations of calls that haven't been read yet: control overtakes data."""

    LIMIT = 1024
    """Cancellations kept: those of calls that were answered long ago are never asked for."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, int], None] = {}

    def add(self, key: tuple[int, int]) -> None:
        """Remembers a cancellation."""
        self._keys[key] = None
        while len(self._keys) > self.LIMIT:
            self._keys.pop(next(iter(self._keys)), None)

    def take(self, key: tuple[int, int]) -> bool:
        """True if the call was cancelled before it came."""
        return bool(self._keys) and self._keys.pop(key, self) is None


CURRENT: ContextVar[Call | None] = ContextVar("paddock_call", default=None)
"""The call that this thread or task runs for, in slots that run several at once."""

INSTANCE = Call(0, 0)
_only: Call | None = None


def set_only(call: Call | None) -> None:
    """Says which call the whole process runs for, in slots that run one at a time."""
    global _only
    _only = call


def current() -> Call:
    """The call that the running code belongs to, where that can be told."""
    return _only or CURRENT.get() or INSTANCE

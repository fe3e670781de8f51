"""Log lines and output of plugins, on their way to the runtime.

Whatever a plugin prints, in whatever amount and encoding: it neither blocks the call nor breaks the
protocol, and what is cut is counted in a line.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
import traceback
from typing import Any

from . import codec, frames
from .calls import INSTANCE, Call, current
from .raised import short_lines
from .sender import Sender

LINE_LIMIT = 16 << 10
"""Characters of one line."""
LINES_LIMIT = 10_000
CHARACTERS_LIMIT = 1 << 20
"""What is kept of a call; of the instance's own lines, of each `REFILL` seconds."""
REFILL = 10.0

_sender: Sender | None = None
_instance_lock = threading.Lock()


def connect(sender: Sender | None) -> None:
    """Lines go to this sender from now on; without one they go to the standard error stream."""
    global _sender
    _sender = sender


def line(call: Call, level: str, logger: str, text: str, time_ms: int | None = None) -> None:
    """Tells one line, unless the call has told too much."""
    if call is INSTANCE:
        _refill(call)
    size = len(text)
    if size > LINE_LIMIT:
        text = f"{text[:LINE_LIMIT]}… ({size - LINE_LIMIT} characters of the line cut)"
        size = len(text)
    if call.kept_lines >= LINES_LIMIT or call.kept_characters + size > CHARACTERS_LIMIT:
        call.cut_lines += 1
        call.cut_characters += size
        return
    call.kept_lines += 1
    call.kept_characters += size
    _put(call, level, logger, text, time_ms)


def _refill(call: Call) -> None:
    now = time.monotonic()
    # Not waited for: a signal handler that logs may have interrupted the one who holds it.
    if now - call.since > REFILL and _instance_lock.acquire(blocking=False):
        try:
            call.since = now
            call.kept_lines = call.kept_characters = 0
            _tell_cut(call, f"each {REFILL:.0f} s")
        finally:
            _instance_lock.release()


def _put(call: Call, level: str, logger: str, text: str, time_ms: int | None = None) -> None:
    if _sender is None:
        _fall_back(f"{level.upper()} {logger}: {text}\n")
        return
    told = {
        "time_ms": int(time.time() * 1000) if time_ms is None else time_ms,
        "level": level,
        "logger": logger,
        "text": text,
    }
    _sender.send(frames.frame(frames.LOG, call.id, call.attempt, codec.encode([told])))


def _fall_back(text: str) -> None:
    stream = sys.__stderr__
    try:
        if stream is not None:
            stream.write(text)
            stream.flush()
    except (OSError, ValueError):
        pass


def _tell_cut(call: Call, of: str) -> None:
    if call.cut_lines:
        cut, size = call.cut_lines, call.cut_characters
        call.cut_lines = call.cut_characters = 0
        kept = f"{LINES_LIMIT} lines and {CHARACTERS_LIMIT >> 20} MiB are kept of {of}"
        _put(call, "warning", "paddock", f"{cut} lines of output cut ({size} characters): {kept}")


def end(call: Call) -> None:
    """Tells what the call still owes: half lines, and how much was cut. Then all lines are out."""
    if call.partial:
        for (stream, _), text in list(call.partial.items()):
            line(call, _LEVELS[stream], stream, text)
        call.partial = None
    if call.cut_lines:
        _tell_cut(call, "a call")
    if _sender is not None:
        _sender.flush()
        if _sender.dropped:
            dropped, _sender.dropped = _sender.dropped, 0
            _put(call, "warning", "paddock", f"{dropped} lines of output cut: nobody took them")


_LEVELS = {"stdout": "info", "stderr": "info"}


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


class Handler(logging.Handler):
    """The root logger's handler: every record becomes a line of the call that made it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Tells a record. Never raises."""
        try:
            line(
                current(),
                _level(record.levelno),
                str(record.name),
                _text(record),
                int(record.created * 1000),
            )
        except RecursionError:
            raise
        except Exception:
            pass


def _text(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception as error:
        try:
            args = repr(record.args)
        except Exception:
            args = "…"
        text = f"{record.msg} {args} (the message can't be formatted: {type(error).__name__})"
    if isinstance(record.exc_info, tuple):
        text += "\n" + short_lines("".join(traceback.format_exception(*record.exc_info))).rstrip()
    if record.stack_info:
        text += "\n" + short_lines(str(record.stack_info))
    return text if type(text) is str else str.__str__(text)


class Stream(io.TextIOBase):
    """`sys.stdout` or `sys.stderr`: the real stream, or lines of the call that prints."""

    def __init__(self, name: str, real: Any) -> None:
        super().__init__()
        self._name = name
        self._real = real
        self._lines = False
        self._lock = threading.RLock()
        self._buffer = _Bytes(self)

    name = property(lambda self: f"<{self._name}>")
    encoding = property(lambda self: "utf-8")
    errors = property(lambda self: "backslashreplace")

    @property
    def buffer(self) -> Any:
        """The stream of bytes behind it."""
        return self._buffer if self._lines else self._real.buffer

    def into_lines(self) -> None:
        """From now on what is printed belongs to the call that prints it."""
        self._lines = True

    def into_real(self) -> None:
        """From now on what is printed goes to the descriptor."""
        self._lines = False

    def write(self, text: str) -> int:
        """Writes text."""
        if not self._lines:
            return self._real.write(text)  # type: ignore[no-any-return]
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        call = current()
        with self._lock:
            partial = call.partial
            if partial is None:
                partial = call.partial = {}
            # `print` writes a line and its end apart: threads of one call don't mix theirs.
            key = (self._name, threading.get_ident())
            whole = partial.pop(key, "") + text
            *lines, rest = whole.split("\n")
            if len(rest) > LINE_LIMIT:
                lines.append(rest)
            elif rest:
                partial[key] = rest
            for one in lines:
                line(call, _LEVELS[self._name], self._name, one)
        return len(text)

    def flush(self) -> None:
        """Flushes the real stream. Half a line waits for its end, or for its call's."""
        self._real.flush()

    def fileno(self) -> int:
        """The real stream's descriptor."""
        return self._real.fileno()  # type: ignore[no-any-return]

    def isatty(self) -> bool:
        """Never a terminal."""
        return False

    def writable(self) -> bool:
        """It is written to."""
        return True

    def reconfigure(self, **_: Any) -> None:
        """Output is UTF-8, by lines, and stays so."""

    def close(self) -> None:
        """It stays open: it belongs to the process, not to a call."""


class _Bytes(io.RawIOBase):
    """The bytes behind a stream of lines; what isn't UTF-8 is escaped."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._stream.write(raw.decode("utf-8", "backslashreplace"))
        return len(raw)

    def fileno(self) -> int:
        return self._stream.fileno()

    def close(self) -> None:
        """It stays open."""


def install() -> tuple[Stream, Stream]:
    """Puts the handler on the root logger and the streams into `sys`. Once, before the import."""
    streams = []
    for name in ("stdout", "stderr"):
        real = getattr(sys, name)
        real.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        stream = Stream(name, real)
        setattr(sys, name, stream)
        streams.append(stream)
    root = logging.getLogger()
    root.addHandler(Handler())
    root.setLevel(logging.INFO)
    for chatty in ("httpx", "httpx2", "httpcore", "openai"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return streams[0], streams[1]


def reinstall() -> None:
    """After the import: the root logger's output to a terminal gives way to the handler."""
    root = logging.getLogger()
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    for handler in list(root.handlers):
        to_terminal = type(handler) is logging.StreamHandler and handler.stream in streams
        if isinstance(handler, Handler) or to_terminal:
            root.removeHandler(handler)
    root.addHandler(Handler())


def in_forked_child() -> None:
    """In a child that a plugin forks the sockets are the slot's: lines go to standard error."""
    global _instance_lock
    _instance_lock = threading.Lock()
    connect(None)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Stream):
            stream._lock = threading.RLock()
            stream.into_real()

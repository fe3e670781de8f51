"""What a plugin raised, as text that survives everything an exception can do.

The worker's own frames are left out: a traceback begins in the plugin.
"""

from __future__ import annotations

import re
import traceback
from types import TracebackType
from typing import Any

from . import paths

TEXT_LIMIT = 64 << 10
"""Characters of a traceback that are kept: the beginning and the end."""
MESSAGE_LIMIT = 8 << 10
FRAMES_LIMIT = 50

_FILE_LINE = re.compile(r'^([ |+-]*)File "(.*)", line (\d+)(, in (.*))?$', re.MULTILINE)


def cut(text: str, limit: int) -> str:
    """The text, its middle left out where it is longer than the limit."""
    if len(text) <= limit:
        return text
    head, tail = limit // 2, limit - limit // 2
    return f"{text[:head]}\n… {len(text) - limit} characters cut …\n{text[-tail:]}"


def type_name(kind: type) -> str:
    """`KeyError`, `plugins.judge.Late`."""
    module, name = kind.__module__, kind.__qualname__
    return name if module in ("builtins", None) else f"{module}.{name}"


def safe_str(value: Any) -> str:
    """`str(value)`, or what kept it from being told."""
    try:
        text = str(value)
        return text if type(text) is str else str.__str__(text)
    except BaseException as error:
        return f"<its text can't be made: {type(error).__name__}>"


def _own(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that isn't the SDK's; the whole, if there is none."""
    found = trace
    while found is not None and _leads_in(found.tb_frame.f_code.co_filename):
        found = found.tb_next
    return found  # none: the file that was imported can't be parsed


def _leads_in(file: str) -> bool:
    return paths.is_sdk(file) or paths.short(file).startswith(("importlib/", "<frozen importlib"))


def _short_line(match: re.Match[str]) -> str:
    indent, file, line, _, function = match.groups()
    place = f"{indent}{paths.short(file)}:{line}"
    return f"{place} in {function}" if function else place


def short_lines(text: str) -> str:
    """The text of a traceback with its files as `file.py:12`."""
    return _FILE_LINE.sub(_short_line, text)


def traceback_text(error: BaseException) -> str:
    """The traceback with causes and exception groups, innermost call last, files as `a.py:12`."""
    try:
        whole = traceback.TracebackException(
            type(error), error, _own(error.__traceback__), compact=True
        )
        text = "".join(whole.format())
    except BaseException as second:
        # no memory, or an exception that breaks the one who looks at it
        text = f"{type_name(type(error))}: (no traceback: {type(second).__name__})"
    return cut(short_lines(text).rstrip(), TEXT_LIMIT)


def frames(error: BaseException) -> list[dict[str, Any]]:
    """The traceback's frames in the plugin's own files, outermost first; all, if there are none."""
    try:
        found = traceback.extract_tb(_own(error.__traceback__))
    except BaseException:
        return []
    own: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for summary in found:
        if paths.is_worker(summary.filename):
            continue
        described = {
            "file": paths.short(summary.filename),
            "line": summary.lineno or 0,
            "function": summary.name,
            "code": (summary.line or "").strip(),
        }
        found_in = own if paths.is_plugin(summary.filename) else others
        if described not in found_in[-1:]:  # recursion repeats itself
            found_in.append(described)
    return (own or others)[-FRAMES_LIMIT:]


def raised(error: BaseException) -> dict[str, Any]:
    """The `raised` of an answer."""
    return {
        "type": type_name(type(error)),
        "message": cut(safe_str(error), MESSAGE_LIMIT),
        "traceback": traceback_text(error),
        "frames": frames(error),
    }

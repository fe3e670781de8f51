"""Where a call stands: the stack of its thread, or the await chain of its task.

Read from another thread while the call runs, so nothing here may rely on what it sees staying as
it is.
"""

from __future__ import annotations

import asyncio
import linecache
import sys
from types import FrameType
from typing import Any

from . import paths

FRAMES_LIMIT = 200
"""Frames that are told; of a deeper stack the outermost and the innermost."""
CHAINS_LIMIT = 20
"""Tasks that a gather waits for, of which the chain is told."""

Place = tuple[str, int, str]


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    return code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name


def _own(places: list[Place]) -> list[Place]:
    """The places without what led from the worker into the plugin."""
    places = [place for place in places if not paths.is_worker(place[0])]
    begin = 0
    while begin < len(places) and _leads_in(places[begin][0]):
        begin += 1
    return places[begin:]


def _leads_in(file: str) -> bool:
    return file == "<frozen runpy>" or paths.short(file).startswith(("asyncio/", "threading.py"))


def text(places: list[Place], indent: str = "") -> str:
    """Places with their source lines, outermost call first, without the worker's own."""
    places = [place for place in places if not paths.is_worker(place[0])]
    if len(places) > FRAMES_LIMIT:
        half = FRAMES_LIMIT // 2
        cut = len(places) - FRAMES_LIMIT
        places = [*places[:half], ("", cut, ""), *places[-half:]]
    out = []
    for file, line, function in places:
        if not file:
            out.append(f"{indent}… {line} frames cut …")
            continue
        out.append(f"{indent}{paths.short(file)}:{line} in {function}")
        source = linecache.getline(file, line).strip()
        if source:
            out.append(f"{indent}    {source}")
    return "\n".join(out)


def thread_places(thread: int | None) -> list[Place]:
    """The stack of a thread, outermost call first; empty if it is gone."""
    frame = sys._current_frames().get(thread) if thread is not None else None
    places = []
    while frame is not None:
        places.append(_place(frame))
        frame = frame.f_back
    places.reverse()
    return places


def thread(ident: int | None) -> str:
    """The stack of a thread as text; empty if it runs nothing of the plugin's."""
    return text(_own(thread_places(ident)))


def _inner(awaited: Any) -> tuple[FrameType | None, Any]:
    """The frame of something that is awaited, and what it awaits itself."""
    for frame, then in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom")):
        if hasattr(awaited, frame):
            return getattr(awaited, frame), getattr(awaited, then)
    if hasattr(awaited, "ag_frame"):
        return awaited.ag_frame, awaited.ag_await
    return None, None


def chain(task: Any, indent: str = "", depth: int = 0) -> str:
    """The whole await chain of a task, through the tasks that it waits for."""
    places: list[Place] = []
    awaited = task.get_coro()
    waits_for: list[Any] = []
    for _ in range(1000):
        if awaited is None:
            break
        if isinstance(awaited, asyncio.Task):
            waits_for = [awaited]
            break
        frame, inner = _inner(awaited)
        if frame is not None:
            places.append(_place(frame))
        elif inner is None:
            waits_for = [t for t in getattr(awaited, "_children", ()) if not t.done()]
            break
        awaited = inner
    out = [text(places, indent)]
    if depth < 10:
        waits_for = [t for t in waits_for if isinstance(t, asyncio.Task)]
        for other in waits_for[:CHAINS_LIMIT]:
            out.append(f"{indent}waits for {other.get_name()}:")
            out.append(chain(other, indent + "  ", depth + 1))
        if len(waits_for) > CHAINS_LIMIT:
            out.append(f"{indent}… and for {len(waits_for) - CHAINS_LIMIT} more tasks")
    return "\n".join(part for part in out if part)

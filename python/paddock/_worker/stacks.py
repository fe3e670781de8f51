"""Where a call stands: the stack of its thread, or the await chain of its task.

Read from another thread while the call runs, so nothing here may rely on what it sees staying as
it is.
"""

from __future__ import annotations

import asyncio
import linecache
import sys
import threading
from types import FrameType
from typing import Any

from . import paths

FRAMES_LIMIT = 200
"""Frames that are told; of a deeper stack the outermost and the innermost."""
THREADS_LIMIT = 20
"""Threads of a call that are told."""
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


class Told:
    """A stack in words, and the innermost place of it in the plugin's own files."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.place = ""
        self.tasks: set[int] = set()
        """Ids of the tasks whose chains are in it."""

    def text(self) -> str:
        """The words."""
        return "\n".join(self.lines)

    def add(self, places: list[Place], indent: str = "") -> None:
        """Tells places, outermost call first."""
        own = [place for place in places if paths.is_plugin(place[0])]
        if own:
            file, line, function = own[-1]
            self.place = f"{paths.short(file)}:{line} in {function}"
        text = _text(places, indent)
        if text:
            self.lines.append(text)


def _text(places: list[Place], indent: str) -> str:
    """Places with their source lines, without the worker's own."""
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


def thread(ident: int | None) -> Told:
    """The stack of a thread; empty if it runs nothing of the plugin's."""
    told = Told()
    told.add(_own(thread_places(ident)))
    return told


def other_threads(told: Told, *idents: int | None) -> None:
    """Tells the stacks of the threads that Python code has started, but for these."""
    place, told_of = told.place, 0
    # Without the lock of `threading.enumerate`: whoever holds it may never let it go.
    for other in list(threading._active.values()):  # type: ignore[attr-defined]
        if other.ident in idents:
            continue
        if told_of == THREADS_LIMIT:
            told.lines.append("… and more threads")
            break
        lines = len(told.lines)
        told.add(_own(thread_places(other.ident)), "  ")
        if len(told.lines) > lines:
            told.lines.insert(lines, f"thread {other.name}:")
            told_of += 1
    told.place = place or told.place


def _inner(awaited: Any) -> tuple[FrameType | None, Any]:
    """The frame of something that is awaited, and what it awaits itself."""
    for frame, then in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom")):
        if hasattr(awaited, frame):
            return getattr(awaited, frame), getattr(awaited, then)
    if hasattr(awaited, "ag_frame"):
        return awaited.ag_frame, awaited.ag_await
    return None, None


def _waits_for(task: Any) -> list[Any]:
    """The tasks that a task waits for, itself or through a gather."""
    waiter = getattr(task, "_fut_waiter", None)
    waited = [waiter, *(getattr(waiter, "_children", None) or ())]
    return [t for t in waited if isinstance(t, asyncio.Task) and not t.done()]


def chain(told: Told, task: Any, indent: str = "", depth: int = 0) -> None:
    """Tells the whole await chain of a task, through the tasks that it waits for."""
    places: list[Place] = []
    told.tasks.add(id(task))
    awaited = task.get_coro()
    for _ in range(1000):
        frame, awaited = _inner(awaited)
        if frame is not None:
            places.append(_place(frame))
        if awaited is None:
            break
    told.add(places, indent)
    if depth < 10:
        waits_for = _waits_for(task)
        for other in waits_for[:CHAINS_LIMIT]:
            told.lines.append(f"{indent}waits for {other.get_name()}:")
            chain(told, other, indent + "  ", depth + 1)
        if len(waits_for) > CHAINS_LIMIT:
            told.lines.append(f"{indent}… and for {len(waits_for) - CHAINS_LIMIT} more tasks")

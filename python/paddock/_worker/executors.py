"""Jobs on thread pools belong to the call that asked for them.

Python copies no context variables into a pool's threads (but for `asyncio.to_thread`), so that
what a job prints or logs would be nobody's. Only the call's own variable goes along: what plugins
keep in context variables works as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .calls import CURRENT, Call


class _Job:
    """A function that runs for a call."""

    __slots__ = ("_call", "_function")

    def __init__(self, call: Call, function: Callable[..., Any]) -> None:
        self._call = call
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = CURRENT.set(self._call)
        try:
            return self._function(*args, **kwargs)
        finally:
            CURRENT.reset(before)


def install() -> None:
    """From now on, in this process. Once, in slots that run several calls."""
    submit = ThreadPoolExecutor.submit

    def for_its_call(
        self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        call = CURRENT.get()
        return submit(self, fn if call is None else _Job(call, fn), *args, **kwargs)

    ThreadPoolExecutor.submit = for_its_call  # type: ignore[method-assign,assignment]

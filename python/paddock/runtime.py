"""The limits that a plugin's decorator sets. A job's own `runtime:` goes before them."""

from __future__ import annotations

from enum import Enum
from typing import Any, Union


class PluginInstance(str, Enum):
    """The size of one instance: cores (a cap, never reserved) and GiB of memory (reserved)."""

    CPU1MEM2 = "cpu1mem2"
    CPU1MEM4 = "cpu1mem4"
    CPU1MEM8 = "cpu1mem8"
    CPU2MEM4 = "cpu2mem4"
    CPU2MEM8 = "cpu2mem8"
    CPU2MEM16 = "cpu2mem16"
    CPU4MEM8 = "cpu4mem8"
    CPU4MEM16 = "cpu4mem16"
    CPU4MEM32 = "cpu4mem32"
    CPU8MEM16 = "cpu8mem16"
    CPU8MEM32 = "cpu8mem32"
    CPU8MEM64 = "cpu8mem64"
    CPU16MEM32 = "cpu16mem32"
    CPU16MEM64 = "cpu16mem64"
    CPU16MEM128 = "cpu16mem128"

    def __str__(self) -> str:
        return str(self.value)


RANGES: dict[str, tuple] = {  # type: ignore[type-arg]
    "timeout": (1, 900),
    "max_concurrency": (1, 100),
    "min_replicas": (0, 10_000),
    "max_replicas": (1, 10_000),
    "queue_timeout": (1, 1_000_000),
}
"""Whole numbers that a runtime may set: least and greatest."""

CONCURRENCY = ("process", "thread")
"""How a `def` function may run at once."""

FIELDS = ("instance", *RANGES, "concurrency")
"""Every field of a runtime."""


def problem(field: str, value: Any) -> str | None:
    """What is wrong with a field's value, or `None`.

    The static check and the constructor share it, so that both say the same.
    """
    if field == "instance":
        names = [size.value for size in PluginInstance]
        if isinstance(value, str) and str(value).lower() in names:
            return None
        return f'runtime.instance is "{value}": allowed are {", ".join(names)}'
    if field == "concurrency":
        if value in CONCURRENCY:
            return None
        return f'runtime.concurrency is "{value}": allowed are {" and ".join(CONCURRENCY)}'
    least, greatest = RANGES[field]
    wanted = f"{least} to {greatest}"
    if isinstance(value, bool) or not isinstance(value, int):
        return f'runtime.{field} is "{value}": a whole number is wanted, {wanted}'
    if not least <= value <= greatest:
        return f'runtime.{field} is "{value}": allowed is {wanted}'
    return None


def replicas_problem(least: Any, greatest: Any) -> str | None:
    """What is wrong with `min_replicas` beside `max_replicas`; `None` stands for the default."""
    greatest = 10 if greatest is None else greatest
    if least is not None and least > greatest:
        return f'runtime.min_replicas is "{least}": allowed is at most max_replicas, {greatest}'
    return None


class Runtime:
    """The limits of one plugin; what is left out is Paddock's default.

    | field | meaning | default | range |
    | --- | --- | --- | --- |
    | `instance` | size of one instance | `CPU1MEM2` | see `PluginInstance` |
    | `timeout` | seconds for one call | 900 | 1 to 900 |
    | `max_concurrency` | calls that one instance runs at once | 10 | 1 to 100 |
    | `min_replicas`, `max_replicas` | instances kept, and at most | 1, 10 | 0, 1 to 10000 |
    | `queue_timeout` | seconds a call may wait for a slot | 3600 | 1 to 1000000 |
    | `concurrency` | how a `def` function runs at once: `process` or `thread` | by kind | |

    A value out of range raises `ValueError`, with the field, the value and the range.
    """

    __slots__ = FIELDS

    def __init__(
        self,
        *,
        instance: Union[PluginInstance, str, None] = None,
        timeout: int | None = None,
        max_concurrency: int | None = None,
        min_replicas: int | None = None,
        max_replicas: int | None = None,
        queue_timeout: int | None = None,
        concurrency: str | None = None,
    ) -> None:
        self.instance = instance
        self.timeout = timeout
        self.max_concurrency = max_concurrency
        self.min_replicas = min_replicas
        self.max_replicas = max_replicas
        self.queue_timeout = queue_timeout
        self.concurrency = concurrency
        for field in FIELDS:
            value = getattr(self, field)
            wrong = None if value is None else problem(field, value)
            if wrong:
                raise ValueError(wrong)
        wrong = replicas_problem(self.min_replicas, self.max_replicas)
        if wrong:
            raise ValueError(wrong)

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The fields that are set, with the instance's size as `cpu1mem2`."""
        out = {field: getattr(self, field) for field in FIELDS}
        if self.instance is not None:
            out["instance"] = str(self.instance).lower()
        return {field: value for field, value in out.items() if value is not None}

    def __repr__(self) -> str:
        inner = ", ".join(f"{field}={value!r}" for field, value in self.model_dump().items())
        return f"Runtime({inner})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runtime) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment]

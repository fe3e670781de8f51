"""What a plugin returned, as an answer of the wire.

It tells what the plugin gave and never mends it: a number that isn't finite and a value that is no
number are encoded as such, and the runtime judges them.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from ..results import GroupGraderResult, PluginStatus, RolloutResult, SingleGraderResult
from . import codec, frames
from .raised import cut, raised, safe_str, type_name

ERROR_LIMIT = 64 << 10
"""Characters of a plugin's `error` that are kept."""
REPR_LIMIT = 200
RESIDUE_LIMIT = 2000
"""Characters of one thing that a call left."""
DEPTH_LIMIT = 100
"""How deep `extra` may be nested."""

STATUSES = ("success", "failure", "retry", "discard")
_CLASSES = {
    "rollout": RolloutResult,
    "single_grader": SingleGraderResult,
    "group_grader": GroupGraderResult,
}
_OURS = frozenset(_CLASSES.values())
_VALUE = {"rollout": "status", "single_grader": "reward", "group_grader": "rewards"}


class BadResult(Exception):
    """The function returned something that is not a result."""


def short_repr(value: Any) -> str:
    """`repr(value)`, not longer than a line."""
    try:
        text = repr(value)
    except BaseException as error:
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= REPR_LIMIT else text[:REPR_LIMIT] + "…"


def no_number(value: Any) -> dict[str, str]:
    """A value that is no number, described."""
    return {"$value": short_repr(value), "type": type_name(type(value))}


def _finite(value: float) -> Any:
    if value - value == 0:
        return value
    return {"$float": "nan" if value != value else "inf" if value > 0 else "-inf"}


def number(value: Any) -> Any:
    """A number of whatever library, as JSON has it."""
    if type(value) is float:
        return value if value - value == 0 else _finite(value)
    try:
        if isinstance(value, Decimal) and value.is_nan():
            return _finite(math.nan)
        if isinstance(value, (numbers.Real, Decimal)):  # int, bool, Fraction, numpy's own
            return _finite(float(value))
        if getattr(value, "shape", None) == () and hasattr(value, "item"):  # numpy, torch, jax
            item = value.item()
            if isinstance(item, numbers.Real):
                return _finite(float(item))
    except Exception:
        pass  # also an int that no float holds: it is finite, and not inf
    return no_number(value)


def jsonable(value: Any, depth: int = 0) -> Any:
    """Whatever a plugin puts into `extra`, as JSON has it."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**64 else number(value)
    if kind is float:
        return _finite(value)
    if depth > DEPTH_LIMIT:
        return no_number(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Enum):
        return jsonable(value.value, depth + 1)
    if isinstance(value, Mapping):
        return {_key(k): jsonable(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item, depth + 1) for item in value]
    return _foreign(value, depth)


def _key(key: Any) -> str:
    return key if type(key) is str else safe_str(key)


def _foreign(value: Any, depth: int) -> Any:
    """Objects of other libraries: numbers, arrays, pydantic objects, dataclasses."""
    if isinstance(value, (numbers.Number, Decimal)):
        return number(value)
    for name in ("tolist", "model_dump"):
        convert = getattr(value, name, None)
        if callable(convert) and not isinstance(value, type):
            try:
                return jsonable(convert(), depth + 1)
            except Exception:
                return no_number(value)
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return {name: jsonable(getattr(value, name, None), depth + 1) for name in fields}
    return no_number(value)


def _get(result: Any, name: str) -> Any:
    """A field of a result, or of a dict of its shape."""
    if type(result) in _OURS or not isinstance(result, Mapping):
        return getattr(result, name, None)
    return result.get(name)


def _check(result: Any, kind: str) -> None:
    """Refuses what is not a result of this kind."""
    wanted = _CLASSES[kind]
    if isinstance(result, wanted):
        return
    got = type(result).__name__ if result is not None else "None"
    if isinstance(result, Mapping):
        if any(name in result for name in (_VALUE[kind], "status", "error")):
            return
        if kind == "rollout" and (not result or "extra" in result):
            return
        keys = ", ".join(short_repr(key) for key in list(result)[:10])
        raise BadResult(
            f"expected {wanted.__name__} or a dict with {_VALUE[kind]!r}, "
            f"got {got} with {'the keys ' + keys if keys else 'no keys'}"
        )
    if not isinstance(result, (type, str, bytes, *_CLASSES.values())) and (
        hasattr(result, _VALUE[kind]) and hasattr(result, "status")
    ):
        return
    value = "" if result is None else f" {short_repr(result)}"
    if inspect.isawaitable(result):
        value += ": was an `await` left out?"
    raise BadResult(f"expected {wanted.__name__}, got {got}{value}")


def _status(value: Any) -> str:
    if value is PluginStatus.SUCCESS or value is None:
        return "success"
    text = value.value if isinstance(value, Enum) else value
    if isinstance(text, str) and text.lower() in STATUSES:
        return text.lower()
    raise BadResult(f"status is {short_repr(value)}: allowed are {', '.join(STATUSES)}")


def _rewards(result: Any, kind: str) -> list[Any]:
    if kind == "single_grader":
        return [number(_get(result, "reward"))]
    values = _get(result, "rewards")
    if values is None:
        return []
    if type(values) is not list:
        shape = getattr(values, "shape", None)
        if shape is not None and len(shape) == 1 and hasattr(values, "tolist"):
            values = values.tolist()
        elif not isinstance(values, (list, tuple)):
            raise BadResult(f"rewards is {type(values).__name__} {short_repr(values)}, not a list")
    return [number(value) for value in values]


def metrics_of(result: Any) -> tuple[dict[str, Any], str]:
    """The metrics, and a warning if they are none."""
    values = _get(result, "metrics")
    if not values and values is not False and values != 0:
        return {}, ""
    if not isinstance(values, Mapping):
        return {}, f"metrics set aside: {type(values).__name__} {short_repr(values)} is not a dict"
    return {_key(key): number(value) for key, value in values.items()}, ""


class Answer:
    """An answer on its way: encoded, but for what the call left behind."""

    __slots__ = ("body", "warning")

    def __init__(self, fields: dict[str, Any], warning: str = "") -> None:
        self.warning = warning
        self.body = codec.encode(fields)
        most = frames.LIMIT - frames.OVERHEAD - _residue_room()
        if len(self.body) > most:
            told = (
                f"the answer takes {_size(len(self.body))}: allowed are {_size(frames.LIMIT)} "
                "(frame_limit), its frame included; return less in extra, metrics or error"
            )
            self.body = codec.encode({"status": "failure", "bad_result": told})

    def with_residue(self, residue: list[str]) -> bytes:
        """The body, with what the call left in its process."""
        if not residue:
            return self.body
        told = codec.encode([cut(text, RESIDUE_LIMIT) for text in residue])
        if len(told) > _residue_room() - 20:
            told = b'["more than can be told"]'
        return self.body[:-1] + b',"residue":' + told + b"}"


def _residue_room() -> int:
    """Bytes of an answer that are kept free for what the call left."""
    return min(1 << 20, frames.LIMIT // 16)


def _size(count: int) -> str:
    """`64 MiB`, `70.2 MiB`, `812 bytes`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count // unit} {name}" if count % unit == 0 else f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def of_result(result: Any, kind: str) -> Answer:
    """The answer for what the function returned. Never raises but for what ends the process."""
    try:
        if result is None and kind == "rollout":
            return Answer({"status": "success"})
        if type(result) is not _CLASSES[kind]:
            _check(result, kind)
        status = _status(_get(result, "status"))
        fields: dict[str, Any] = {"status": status}
        error = _get(result, "error")
        if error:
            fields["error"] = cut(error if type(error) is str else safe_str(error), ERROR_LIMIT)
        warning = ""
        if kind != "rollout":
            if status == "success":
                fields["rewards"] = _rewards(result, kind)
            metrics, warning = metrics_of(result)
            if metrics:
                fields["metrics"] = metrics
        extra = _get(result, "extra")
        if extra is not None and (type(extra) is not dict or extra):
            fields["extra"] = _extra(extra)
        return Answer(fields, warning)
    except BadResult as wrong:
        return Answer({"status": "failure", "bad_result": str(wrong)})
    except Exception as error:  # the result's own code raised: a property, a repr, a mapping
        return of_error(error)


def _extra(extra: Any) -> dict[str, Any]:
    found = jsonable(extra)
    if not isinstance(found, dict) or (not isinstance(extra, Mapping) and "$value" in found):
        raise BadResult(f"extra is {type(extra).__name__} {short_repr(extra)}, not a dict")
    return found


def of_error(error: BaseException) -> Answer:
    """The answer for what the function raised."""
    try:
        return Answer({"status": "failure", "raised": raised(error)})
    except BaseException as second:
        name = type(error).__name__
        told = {"type": name, "message": "", "traceback": name, "frames": []}
        told["message"] = f"it can't be described: {type(second).__name__}"
        return Answer({"status": "failure", "raised": told})

"""JSON for the wire: msgspec where it is installed, the standard library otherwise.

JSON as Python's: what comes in may hold lone surrogates and numbers that aren't finite; what goes
out is strict JSON. A lone surrogate goes out as a backslash escape in the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

try:
    import msgspec
except ImportError:  # the project's own environment may lack it
    msgspec = None  # type: ignore[assignment]

_UNUSUAL_FLOAT = b'"$float"'


def _float_back(found: dict[str, Any]) -> Any:
    text = found.get("$float") if len(found) == 1 else None
    return float(text) if text in ("nan", "inf", "-inf") else found


_decode: Callable[[Any], Any] = json.loads if msgspec is None else msgspec.json.Decoder().decode
_encode: Callable[[Any], bytes] | None = None if msgspec is None else msgspec.json.Encoder().encode


def decode(body: Any) -> Any:
    """The value of a JSON text."""
    raw = bytes(body)
    if b"$" in raw and _UNUSUAL_FLOAT in raw:  # the first look is a memchr, ten times as fast
        return json.loads(raw, object_hook=_float_back)
    try:
        return _decode(raw)
    except Exception:
        if msgspec is None:
            raise
        return json.loads(raw)  # lone surrogates, NaN


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    return value


def encode(value: Any) -> bytes:
    """JSON text of dicts with text keys, lists, text, finite numbers, booleans and `None`."""
    try:
        if _encode is not None:
            return _encode(value)
        return _slow_encode(value)
    except UnicodeEncodeError:
        return _slow_encode(_without_surrogates(value))


def _slow_encode(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")

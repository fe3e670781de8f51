"""What a client and a model said to each other, from OpenAI-shaped requests and answers.

Clients differ (OpenAI's, Ark's, a user's own; objects or dicts, whole answers or streams); this
module reads what they have in common, and never changes what the caller gets.
"""

from __future__ import annotations

from typing import Any

from .data import plain


def _get(value: Any, name: str) -> Any:
    """A field of an object or a mapping; `None` where there is none."""
    if isinstance(value, dict):
        return value.get(name)
    return getattr(value, name, None)


def as_dict(value: Any) -> dict[str, Any]:
    """A message as a plain dict: a mapping, a pydantic object, or what has attributes."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return {key: item for key, item in dump().items() if item is not None or key == "content"}
    return dict(vars(value))


def completion_of(response: Any) -> Any:
    """The completion in a response, which may be a raw one of OpenAI's client."""
    if not isinstance(response, dict) and _get(response, "choices") is None:
        parse = getattr(response, "parse", None)
        return parse() if callable(parse) else response
    return response


def reply_of(response: Any) -> dict[str, Any] | None:
    """The first choice's message of a completion; `None` if it has none."""
    choices = _get(response, "choices")
    message = _get(choices[0], "message") if choices else None
    return None if message is None else as_dict(message)


def finish_reason_of(response: Any) -> str | None:
    """Why the first choice ended."""
    choices = _get(response, "choices")
    return _get(choices[0], "finish_reason") if choices else None


def usage_of(response: Any) -> dict[str, int]:
    """Token counts of a completion; 0 where it tells none."""
    usage = _get(response, "usage")
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: int(_get(usage, name) or 0) for name in names}


class Collected:
    """A completion put together from the chunks of a stream."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish_reason: str | None = None
        self._usage: Any = None

    def add(self, chunk: Any) -> None:
        """Takes the next chunk."""
        if _get(chunk, "usage") is not None:
            self._usage = _get(chunk, "usage")
        for choice in _get(chunk, "choices") or ():
            if _get(choice, "index"):
                continue
            self._finish_reason = _get(choice, "finish_reason") or self._finish_reason
            delta = _get(choice, "delta")
            if delta is None:
                continue
            self._message["role"] = _get(delta, "role") or self._message["role"]
            for name in ("content", "reasoning_content"):
                text = _get(delta, name)
                if text:
                    self._message[name] = (self._message.get(name) or "") + text
            for call in _get(delta, "tool_calls") or ():
                self._add_call(call)

    def _add_call(self, call: Any) -> None:
        index = _get(call, "index") or 0
        whole = self._calls.setdefault(
            index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        whole["id"] = _get(call, "id") or whole["id"]
        function = _get(call, "function")
        for name in ("name", "arguments"):
            whole["function"][name] += _get(function, name) or ""

    def completion(self) -> dict[str, Any]:
        """The whole answer, in the shape of one that wasn't streamed."""
        message = dict(self._message)
        if self._calls:
            calls: list[Any] = [self._calls[index] for index in sorted(self._calls)]
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        return {"choices": [choice], "usage": self._usage}

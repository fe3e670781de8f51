"""What plugins are given: JSON objects that read as mappings and as attributes.

They are dicts, so that whatever takes a dict takes them; a field that its object doesn't have
reads as its default. Unknown fields are kept. Nothing is validated: a row is passed on as the
data set has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import (
    Any,
    ClassVar,
    TypeVar,
    Union,
)

R = TypeVar("R", bound="Record")


def plain(value: Any) -> Any:
    """The value with every record in it as a plain dict; containers are copied."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Record(dict[str, Any]):
    """A JSON object whose fields are attributes too.

    A field named like a method of `dict` (`items`, `keys`, …) is reached as a key only.
    """

    __slots__ = ()

    _defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields that are always there: `None`, or what makes a fresh default (`list`, `dict`)."""
    _always_dumped: ClassVar[tuple[str, ...] | None] = None
    """Fields that a dump has though they aren't set; `None` means all that have a default."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._adopt()

    @classmethod
    def wrap(cls: type[R], raw: dict[str, Any]) -> R:
        """A record of a decoded JSON object; what is in it is taken over, not copied."""
        record = dict.__new__(cls)
        dict.update(record, raw)
        record._adopt()
        return record

    def _adopt(self) -> None:
        """Makes records of the objects in it that plugins read by attribute."""

    def __missing__(self, key: str) -> Any:
        make = self._defaults[key]
        if make is None:
            return None
        value = self[key] = make()
        return value

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no field {name!r}; it has {', '.join(map(repr, self))}"
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._defaults, *(key for key in self if isinstance(key, str))]

    def model_dump(
        self,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        exclude_none: bool = False,
        exclude_unset: bool = False,
        exclude_defaults: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """A deep copy as plain dicts and lists. Fields that aren't set have their default."""
        out = {key: plain(value) for key, value in self.items()}
        if not (exclude_unset or exclude_defaults):
            names = self._defaults if self._always_dumped is None else self._always_dumped
            for name in names:
                if name not in out:
                    make = self._defaults[name]
                    out[name] = None if make is None else make()
        if include is not None:
            wanted = set(include)
            out = {key: value for key, value in out.items() if key in wanted}
        if exclude is not None:
            unwanted = set(exclude)
            out = {key: value for key, value in out.items() if key not in unwanted}
        if exclude_none:
            out = {key: value for key, value in out.items() if value is not None}
        return out

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """`model_dump` as JSON text."""
        return json.dumps(self.model_dump(**options), indent=indent, ensure_ascii=False)

    def model_copy(self: R, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> R:
        """A copy, with some fields replaced."""
        fields = plain(self) if deep else dict(self)
        fields.update(update or {})
        return type(self)(fields)

    @classmethod
    def model_validate(cls: type[R], value: Mapping[str, Any]) -> R:
        """The mapping as a record. Nothing is checked."""
        return value if isinstance(value, cls) else cls(value)


def _records(value: Any) -> Any:
    """Objects in a list as records; anything else as it is."""
    if isinstance(value, list):
        return [
            Record.wrap(item) if isinstance(item, dict) and not isinstance(item, Record) else item
            for item in value
        ]
    return value


class ToolCall(Record):
    """A tool call of a message: `id`, `type`, `function.name`, `function.arguments`."""

    __slots__ = ()
    _defaults = {"id": None, "type": None, "function": None}
    _always_dumped = ()

    def _adopt(self) -> None:
        function = dict.get(self, "function")
        if type(function) is dict:
            self["function"] = Record.wrap(function)


class ChatCompletionMessage(Record):
    """One message: `role`, `content` (text or a list of parts), `tool_calls`, …"""

    __slots__ = ()
    role: str
    content: Union[str, list[Any], None]
    tool_calls: list[ToolCall] | None
    reasoning_content: str | None
    tool_call_id: str | None
    name: str | None
    _defaults = {
        "role": None,
        "content": None,
        "tool_calls": None,
        "reasoning_content": None,
        "tool_call_id": None,
        "name": None,
    }
    _always_dumped = ("role", "content")

    def _adopt(self) -> None:
        content = dict.get(self, "content")
        if type(content) is list:
            self["content"] = _records(content)
        calls = dict.get(self, "tool_calls")
        if type(calls) is list:
            self["tool_calls"] = [ToolCall.wrap(c) if type(c) is dict else c for c in calls]


def messages_of(value: Any) -> Any:
    """A list of messages as records; anything else as it is."""
    if type(value) is not list:
        return value
    new, fill = dict.__new__, dict.update  # this runs for each message of each call
    out = []
    for raw in value:
        if type(raw) is dict:
            message = new(ChatCompletionMessage)
            fill(message, raw)
            if type(raw.get("content")) is not str or "tool_calls" in raw:
                message._adopt()
            out.append(message)
        elif isinstance(raw, dict) and not isinstance(raw, ChatCompletionMessage):
            out.append(ChatCompletionMessage(raw))
        else:
            out.append(raw)
    return out


class Usage(Record):
    """Token counts over all turns."""

    __slots__ = ()
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    _defaults = {"prompt_tokens": int, "completion_tokens": int, "total_tokens": int}


class ChatCompletionSample(Record):
    """One row of the data set, as it is.

    `extra` holds the reference answer and whatever the grader needs.
    """

    __slots__ = ()
    messages: list[ChatCompletionMessage]
    tools: list[dict[str, Any]] | None
    thinking: dict[str, Any] | None
    extra: dict[str, Any]
    model: str | None
    n: int | None
    max_new_tokens: int | None
    top_p: float | None
    top_k: int | None
    temperature: float | None
    _defaults = {
        "messages": list,
        "tools": None,
        "thinking": None,
        "extra": dict,
        "model": None,
        "n": None,
        "max_new_tokens": None,
        "top_p": None,
        "top_k": None,
        "temperature": None,
    }

    def _adopt(self) -> None:
        if "messages" in self:
            self["messages"] = messages_of(self["messages"])


class Trajectory(Record):
    """One finished rollout: the whole conversation, prompt included.

    `extra` is what the rollout returned.
    """

    __slots__ = ()
    messages: list[ChatCompletionMessage]
    finish_reason: str | None
    usage: Usage
    extra: dict[str, Any]
    _defaults = {"messages": list, "finish_reason": None, "usage": None, "extra": dict}

    def _adopt(self) -> None:
        if "messages" in self:
            self["messages"] = messages_of(self["messages"])
        usage = dict.get(self, "usage")
        if type(usage) is dict:
            self["usage"] = Usage.wrap(usage)
        if "extra" in self and self["extra"] is None:  # a rollout that returned none
            self["extra"] = {}


_JOB_ID = "model_customization_job_id"
_JOB_ID_AS_DOCUMENTED = "modle_customization_job_id"  # codespell:ignore


class PluginContext(Record):
    """The job that a call belongs to, and the call itself. A field that isn't known is `None`."""

    __slots__ = ()
    model_customization_job_id: str | None
    modle_customization_job_id: str | None
    """The same, as public documents spell it."""
    foundation_model_name: str | None
    foundation_model_version: str | None
    customization_type: str | None
    phase: str | None
    """`train` or `test`."""
    is_mock: bool | None
    step: int | None
    sample_id: str | None
    trajectory_id: str | None
    attempt: int | None
    """Which try of the call this is, from 1."""
    _defaults = {
        _JOB_ID: None,
        _JOB_ID_AS_DOCUMENTED: None,
        "foundation_model_name": None,
        "foundation_model_version": None,
        "customization_type": None,
        "phase": None,
        "is_mock": None,
        "step": None,
        "sample_id": None,
        "trajectory_id": None,
        "attempt": None,
    }

    def _adopt(self) -> None:
        if _JOB_ID in self:
            self.setdefault(_JOB_ID_AS_DOCUMENTED, self[_JOB_ID])
        elif _JOB_ID_AS_DOCUMENTED in self:
            self[_JOB_ID] = self[_JOB_ID_AS_DOCUMENTED]


def as_parts(messages: Any) -> None:
    """Turns the text of each message into a list of one part (`content_format: parts`)."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            content = dict.get(message, "content")
            if isinstance(content, str):
                message["content"] = [Record(type="text", text=content)]

"""How a rollout reaches the model that is trained.

The proxy object keeps the conversation on the plugin's side (`messages`, `usage`,
`finish_reason`); what is graded and trained is recorded by the service behind `url`, token by
token.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from . import clients, wrap
from .conversation import as_dict, completion_of, finish_reason_of, reply_of, usage_of
from .data import ChatCompletionMessage, ChatCompletionSample, Usage, messages_of

MAIN_HEADER = "X-Paddock-Main"
"""Marks a request of the trajectory's main conversation: its edits of the history are edits, not
another conversation."""


class Mode(str, Enum):
    """What is behind a proxy."""

    Inference = "inference"
    """Any OpenAI-compatible service: nothing is trained."""
    Training = "training"
    """The model that a job trains."""


class RolloutInferenceProxy:
    """The model, for one trajectory.

    `url` is an OpenAI-compatible base URL and `jwt_token` a token that is good for this
    trajectory alone. `rollout_client()` and `async_rollout_client()` give ready clients;
    `wrap_client_inplace` makes any OpenAI-shaped client one. A request that is made without them
    carries `headers` and `get_extra_body()`, and stands between `update_state_from_messages` and
    `process_completion`. A request without `headers` that doesn't continue the conversation is a
    side conversation, and isn't trained on.
    """

    def __init__(
        self,
        sample: Any = None,
        *,
        url: str = "",
        jwt_token: str = "",
        headers: dict[str, str] | None = None,
        mode: Mode = Mode.Training,
    ) -> None:
        self.url = url
        self.jwt_token = jwt_token
        self.mode = Mode(mode)
        self.sample = ChatCompletionSample(sample) if type(sample) is dict else sample
        self._headers = headers or {}
        self._messages: list[Any] | None = None
        self._asked: list[Any] | None = None
        self._usage = [0, 0, 0]
        self._finish_reason: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request that belongs to the trajectory's main conversation."""
        if self.mode is Mode.Inference:
            return dict(self._headers)
        return {**self._headers, MAIN_HEADER: "1"}

    @property
    def messages(self) -> list[ChatCompletionMessage]:
        """The conversation so far, the sample's own messages first."""
        if self._messages is None:
            sample = self.sample
            found = sample.get("messages") if isinstance(sample, dict) else None
            if found is None:
                found = getattr(sample, "messages", None) or []
            self._messages = [as_dict(message) for message in found]
        return list(messages_of(self._messages))

    @property
    def usage(self) -> Usage:
        """Token counts over all requests of the main conversation."""
        prompt, completion, total = self._usage
        return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)

    @property
    def finish_reason(self) -> str | None:
        """Why the last answer ended; `None` before the first."""
        return self._finish_reason

    def get_extra_body(self) -> dict[str, Any]:
        """Fields of a request that OpenAI's own API doesn't have, where the sample sets them."""
        sample = self.sample if isinstance(self.sample, dict) else {}
        wanted = ("thinking", "top_k")
        return {name: sample[name] for name in wanted if sample.get(name) is not None}

    def rollout_client(self, **options: Any) -> Any:
        """An `openai.OpenAI` for this trajectory. `options` go to its constructor.

        It shares its connections with the process's other clients, so that making one is cheap.
        """
        options.setdefault("max_retries", self._retries())
        client = clients.client(self.url, self.jwt_token, **options)
        return wrap.wrap_client_inplace(client, proxy=self)

    def async_rollout_client(self, **options: Any) -> Any:
        """An `openai.AsyncOpenAI` for this trajectory. `options` go to its constructor.

        It shares its connections with the event loop's other clients.
        """
        options.setdefault("max_retries", self._retries())
        client = clients.async_client(self.url, self.jwt_token, **options)
        return wrap.wrap_async_client_inplace(client, proxy=self)

    def _retries(self) -> int:
        """While a job trains, Paddock calls a rollout again itself if the model fails it."""
        return 0 if self.mode is Mode.Training else 2

    def update_state_from_messages(self, messages: Iterable[Any]) -> None:
        """Tells what a request will ask. To be called before it; `process_completion` afterwards.

        A request that fails leaves the conversation as it was.
        """
        self._asked = [as_dict(message) for message in messages]

    def process_completion(self, completion: Any) -> Any:
        """Takes the answer into the conversation, and returns it."""
        asked, self._asked = self._asked, None
        self.record(self.messages if asked is None else asked, completion)
        return completion

    def record(self, asked: Iterable[Any], completion: Any) -> None:
        """Takes a request's messages and its answer as the conversation that counts now."""
        completion = completion_of(completion)
        reply = reply_of(completion)
        if reply is None:
            return
        self._messages = [*(as_dict(message) for message in asked), reply]
        self._finish_reason = finish_reason_of(completion)
        counts = usage_of(completion).values()
        self._usage = [old + new for old, new in zip(self._usage, counts)]

    def __repr__(self) -> str:  # the token must not get into logs
        return f"{type(self).__name__}(url={self.url!r}, mode={self.mode.value!r})"


class InferenceProxy(RolloutInferenceProxy):
    """The same object for a local run against any OpenAI-compatible service.

    `proxy = InferenceProxy(sample, url="http://…/v1", jwt_token=key)`, then `demo_rollout({},
    proxy, sample)` and `proxy.messages`.
    """

    def __init__(
        self, sample: Any, *, url: str, jwt_token: str = "", mode: Mode = Mode.Inference
    ) -> None:
        super().__init__(sample, url=url, jwt_token=jwt_token, mode=mode)

"""Makes any OpenAI-shaped client speak for a trajectory.

The client's `chat.completions.create` (or `completions.create`, of clients without `chat`) is
replaced on this one client by a function that tells the proxy what was asked and what came back.
The caller's arguments and answers aren't touched, but for the headers that mark the main
conversation. A streamed answer is recorded when it ends; a cut stream records nothing.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable, TypeVar

from .conversation import Collected, as_dict

C = TypeVar("C")

_MARK = "_paddock_original"
_METHODS = ("create", "parse")
"""Methods that ask a model: `parse` is `create` with a schema, in newer clients."""

_logger = logging.getLogger("paddock")


def wrap_client_inplace(client: C, proxy: Any) -> C:
    """Makes a synchronous client record its conversation in `proxy`. Returns the client."""
    _wrap(client, proxy, _recorded)
    return client


def wrap_async_client_inplace(client: C, proxy: Any) -> C:
    """Makes an asynchronous client record its conversation in `proxy`. Returns the client."""
    _wrap(client, proxy, _async_recorded)
    return client


def _wrap(client: Any, proxy: Any, recorder: Callable[..., Any]) -> None:
    completions = _completions(client)
    for name in _METHODS:
        method = getattr(completions, name, None)
        if callable(method):
            original = getattr(method, _MARK, method)  # wrapped before: a client has one proxy
            recorded = recorder(original, proxy, _takes_headers(original))
            setattr(recorded, _MARK, original)
            object.__setattr__(completions, name, recorded)


def _completions(client: Any) -> Any:
    for path in (("chat", "completions"), ("completions",)):
        found = client
        for name in path:
            found = getattr(found, name, None)
        if callable(getattr(found, "create", None)):
            return found
    raise TypeError(
        f"{type(client).__name__} is not OpenAI-shaped: it has no `chat.completions.create`"
    )


def _recorded(create: Callable[..., Any], proxy: Any, headers: bool) -> Callable[..., Any]:
    @functools.wraps(create)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        asked = _before(proxy, headers, kwargs)
        response = create(*args, **kwargs)
        if kwargs.get("stream") is True:
            return _stream(response, proxy, asked)
        _record(proxy, asked, response)
        return response

    return recorded


def _async_recorded(create: Callable[..., Any], proxy: Any, headers: bool) -> Callable[..., Any]:
    @functools.wraps(create)
    async def recorded(*args: Any, **kwargs: Any) -> Any:
        asked = _before(proxy, headers, kwargs)
        response = create(*args, **kwargs)
        if inspect.isawaitable(response):
            response = await response
        if kwargs.get("stream") is True:
            return _async_stream(response, proxy, asked)
        _record(proxy, asked, response)
        return response

    return recorded


def _record(proxy: Any, asked: Any, response: Any) -> None:
    """Records an answer. The caller gets it, whatever shape it has."""
    try:
        proxy.record(asked, response)
    except Exception as error:
        kind = type(response).__name__
        _logger.warning("an answer of type %s can't be recorded: %r", kind, error)


@functools.lru_cache(maxsize=64)
def _function_takes_headers(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "extra_headers" or p.kind is p.VAR_KEYWORD for p in parameters)


def _takes_headers(create: Any) -> bool:
    function = getattr(create, "__func__", create)
    if (getattr(function, "__module__", "") or "").startswith("openai."):
        return True
    try:
        return _function_takes_headers(function)
    except TypeError:  # not hashable
        return False


def _before(proxy: Any, headers: bool, kwargs: Any) -> list[Any]:
    if headers:
        kwargs["extra_headers"] = {**proxy.headers, **(kwargs.get("extra_headers") or {})}
    messages = kwargs.get("messages")
    return [as_dict(message) for message in messages or ()]


def _stream(response: Any, proxy: Any, asked: Any) -> Any:
    collected = Collected()

    def through(chunks: Iterator[Any]) -> Iterator[Any]:
        for chunk in chunks:
            collected.add(chunk)
            yield chunk
        _record(proxy, asked, collected.completion())

    inner = getattr(response, "_iterator", None)  # OpenAI's own stream stays what it is
    if inner is not None:
        response._iterator = through(inner)
        return response
    return _Stream(response, through(iter(response)))


def _async_stream(response: Any, proxy: Any, asked: Any) -> Any:
    collected = Collected()

    async def through(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for chunk in chunks:
            collected.add(chunk)
            yield chunk
        _record(proxy, asked, collected.completion())

    inner = getattr(response, "_iterator", None)
    if inner is not None:
        response._iterator = through(inner)
        return response
    return _AsyncStream(response, through(response.__aiter__()))


class _Stream:
    """A stream that is read through the collector; all else is the client's own."""

    def __init__(self, response: Any, chunks: Iterator[Any]) -> None:
        self._response = response
        self._chunks = chunks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def __iter__(self) -> Iterator[Any]:
        return self._chunks

    def __next__(self) -> Any:
        return next(self._chunks)

    def __enter__(self) -> Any:
        enter = getattr(self._response, "__enter__", None)
        if enter is not None:
            enter()
        return self

    def __exit__(self, *raised: Any) -> Any:
        leave = getattr(self._response, "__exit__", None)
        return None if leave is None else leave(*raised)


class _AsyncStream:
    """The same for an asynchronous client."""

    def __init__(self, response: Any, chunks: AsyncIterator[Any]) -> None:
        self._response = response
        self._chunks = chunks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._chunks

    async def __anext__(self) -> Any:
        return await self._chunks.__anext__()

    async def __aenter__(self) -> Any:
        enter = getattr(self._response, "__aenter__", None)
        if enter is not None:
            await enter()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        leave = getattr(self._response, "__aexit__", None)
        return None if leave is None else await leave(*raised)


__all__ = ["wrap_async_client_inplace", "wrap_client_inplace"]

"""OpenAI clients that cost little to make.

A rollout makes one for each call, hundreds at once. What is dear about a client is its HTTP pool
and its TLS context; so all clients of a process (of an event loop, for the async ones) share one
pool, and the TLS context is made only for a service that is reached over TLS. Closing a client
leaves the pool to the others.

Nothing is imported or made before the first client is asked for.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Callable

CONNECT_SECONDS = 30.0
"""How long a connection may take to be made."""
ANSWER_SECONDS = 3600.0
"""How long a model may take to answer. The service's own limit is shorter, and says more."""
CONNECTIONS = 1000
"""Connections of one pool: more than one process ever runs calls."""

_lock = threading.Lock()
_pools: dict[bool, Any] = {}
_loops: weakref.WeakKeyDictionary[Any, dict[bool, Any]] = weakref.WeakKeyDictionary()
_classes: dict[str, tuple[Any, type, type]] = {}


def _http() -> tuple[Any, type, type]:
    """The HTTP library that the installed `openai` is made on, and pools of it that stay open."""
    if "http" in _classes:
        return _classes["http"]
    from openai import _base_client

    library = getattr(_base_client, "httpx2", None)
    if library is None:
        import httpx as library  # type: ignore[no-redef]

    class SharedPool(library.Client):  # type: ignore[misc, name-defined]
        """A pool that outlives the clients that use it."""

        def close(self) -> None:
            """Closing one client must not close the others' connections."""

        def __exit__(self, *_: Any) -> None:
            """The same."""

        def really_close(self) -> None:
            super().close()

    class SharedAsyncPool(library.AsyncClient):  # type: ignore[misc, name-defined]
        """The same for one event loop."""

        async def aclose(self) -> None:
            """Closing one client must not close the others' connections."""

        async def __aexit__(self, *_: Any) -> None:
            """The same."""

    _classes["http"] = (library, SharedPool, SharedAsyncPool)
    return _classes["http"]


def _local(url: str) -> bool:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")


def _settings(library: Any, local: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "timeout": library.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        "limits": library.Limits(
            max_connections=CONNECTIONS, max_keepalive_connections=100, keepalive_expiry=30.0
        ),
        "follow_redirects": True,
    }
    if local:  # no TLS context, and no proxy from the environment between a plugin and its machine
        settings.update(verify=False, trust_env=False)
    return settings


def _pool(local: bool) -> Any:
    pool = _pools.get(local)
    if pool is None:
        library, shared, _ = _http()
        with _lock:
            pool = _pools.get(local)
            if pool is None:
                pool = _pools[local] = shared(**_settings(library, local))
    return pool


def _async_pool(local: bool) -> Any:
    import asyncio

    library, _, shared = _http()
    loop = asyncio.get_running_loop()
    pools = _loops.get(loop)
    if pools is None:
        pools = _loops[loop] = {}
    if local not in pools:
        pools[local] = shared(**_settings(library, local))
    return pools[local]


def close_idle() -> None:
    """Closes this process's pool; the next client opens another.

    The worker calls it after each call of a process slot, so that no connection is left in it.
    """
    for pool in list(_pools.values()):
        pool.really_close()
    _pools.clear()


def _forget() -> None:
    """In a forked child the connections are the parent's: they must not be used, nor closed."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()
    _loops.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _make(kind: str, pool: Callable[[bool], Any], url: str, token: str, options: Any) -> Any:
    import openai

    if "http_client" not in options:
        try:
            options["http_client"] = pool(_local(url))
        except RuntimeError as error:  # an async client made outside of a loop has its own pool
            if "no running event loop" not in str(error):
                raise
    return getattr(openai, kind)(base_url=url, api_key=token or "-", **options)


def client(url: str, token: str, **options: Any) -> Any:
    """An `openai.OpenAI` for a base URL. `options` go to its constructor."""
    return _make("OpenAI", _pool, url, token, options)


def async_client(url: str, token: str, **options: Any) -> Any:
    """An `openai.AsyncOpenAI` for a base URL, bound to the running event loop."""
    return _make("AsyncOpenAI", _async_pool, url, token, options)


def in_use() -> bool:
    """True if this process has an open pool."""
    return bool(_pools)


__all__ = ["async_client", "client", "close_idle", "in_use"]

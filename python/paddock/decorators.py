"""The decorators that make a function a plugin.

A decorated function stays what it was: it can be called directly, in a script or a test. The worker
takes the undecorated function from `plugin_of(fn)` and calls that.
"""

from __future__ import annotations

import functools
import inspect
from typing import (
    Any,
    Callable,
    TypeVar,
    overload,
)

from .data import ChatCompletionSample, PluginContext, Record, Trajectory
from .runtime import Runtime

F = TypeVar("F", bound=Callable[..., Any])

PARAMETERS: dict[str, tuple[str, str, str]] = {
    "rollout": ("context", "proxy", "sample"),
    "single_grader": ("context", "sample", "trajectory"),
    "group_grader": ("context", "sample", "trajectories"),
}
"""The parameters of each kind of plugin: names and order are part of the contract."""

_MARK = "__paddock_plugin__"

_RECORDS: dict[str, type[Record]] = {
    "context": PluginContext,
    "sample": ChatCompletionSample,
    "trajectory": Trajectory,
}


class PluginFunction:
    """What a decorator knows of its function."""

    __slots__ = ("decorated", "description", "function", "kind", "name", "runtime")

    def __init__(
        self, kind: str, function: Callable[..., Any], name: str, description: str, runtime: Runtime
    ) -> None:
        self.kind = kind
        self.function = function
        self.name = name
        self.description = description
        self.runtime = runtime
        self.decorated: Callable[..., Any] = function

    @property
    def is_async(self) -> bool:
        """True if calling it gives a coroutine, whatever decorators lie between."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            inspect.unwrap(self.function)
        )

    def parameters(self) -> list[str]:
        """The names of its parameters, `*args` and `**kwargs` with their stars."""
        stars: dict[Any, str] = {
            inspect.Parameter.VAR_POSITIONAL: "*",
            inspect.Parameter.VAR_KEYWORD: "**",
        }
        signature = inspect.signature(self.function)
        return [stars.get(p.kind, "") + p.name for p in signature.parameters.values()]


def plugin_of(value: Any) -> PluginFunction | None:
    """What a decorator left on the function; `None` if it has none.

    A decorator that was put around one of ours is kept: then the whole of it is called.
    """
    plugin = getattr(value, _MARK, None)
    if not isinstance(plugin, PluginFunction):
        return None
    if plugin.decorated is value:
        return plugin
    return PluginFunction(plugin.kind, value, plugin.name, plugin.description, plugin.runtime)


def _record(name: str, value: Any) -> Any:
    """Plain dicts, as scripts and tests pass them, as the records that plugins get."""
    if name == "context" and value is None:
        return PluginContext()
    if name == "trajectories" and type(value) in (list, tuple):
        return [_record("trajectory", item) for item in value]
    if type(value) is dict and name in _RECORDS:
        return _RECORDS[name](value)
    return value


def _mark(
    kind: str,
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    runtime: Runtime | None,
) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"@{kind} decorates a function, not {function!r}; use @{kind}(name=...)")
    inner = plugin_of(function)
    if inner is not None:
        function = inner.function
    names = PARAMETERS[kind]

    def given(args: Any, kwargs: Any) -> Any:
        records = [_record(n, a) for n, a in zip(names, args)]
        return (*records, *args[len(names) :]), {n: _record(n, a) for n, a in kwargs.items()}

    decorated: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def decorated(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = given(args, kwargs)
            return await function(*args, **kwargs)

    else:

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = given(args, kwargs)
            return function(*args, **kwargs)

    plugin = PluginFunction(
        kind,
        function,
        name or str(getattr(function, "__name__", kind)),
        description or "",
        runtime or Runtime(),
    )
    plugin.decorated = decorated
    setattr(decorated, _MARK, plugin)
    return decorated


def _decorator(
    kind: str,
    function: Callable[..., Any] | None,
    name: str | None,
    description: str | None,
    runtime: Runtime | None,
) -> Any:
    if function is not None:
        return _mark(kind, function, name, description, runtime)
    return lambda decorated: _mark(kind, decorated, name, description, runtime)


@overload
def rollout(function: F) -> F: ...
@overload
def rollout(
    *,
    name: str | None = None,
    description: str | None = None,
    runtime: Runtime | None = None,
) -> Callable[[F], F]: ...
def rollout(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    runtime: Runtime | None = None,
) -> Any:
    """Makes a function a rollout: `(context, proxy, sample)`, called once per wanted trajectory.

    It returns a `RolloutResult`, or `None` for success. `name` is the function's name unless given.
    """
    return _decorator("rollout", function, name, description, runtime)


@overload
def single_grader(function: F) -> F: ...
@overload
def single_grader(
    *,
    name: str | None = None,
    description: str | None = None,
    runtime: Runtime | None = None,
) -> Callable[[F], F]: ...
def single_grader(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    runtime: Runtime | None = None,
) -> Any:
    """Makes a function a grader of one trajectory: `(context, sample, trajectory)`.

    It returns a `SingleGraderResult`.
    """
    return _decorator("single_grader", function, name, description, runtime)


@overload
def group_grader(function: F) -> F: ...
@overload
def group_grader(
    *,
    name: str | None = None,
    description: str | None = None,
    runtime: Runtime | None = None,
) -> Callable[[F], F]: ...
def group_grader(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    runtime: Runtime | None = None,
) -> Any:
    """Makes a function a grader of all trajectories of a sample: `(context, sample, trajectories)`.

    It returns a `GroupGraderResult` with a reward for each, in their order.
    """
    return _decorator("group_grader", function, name, description, runtime)

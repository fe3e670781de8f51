"""A call's body, as the arguments that the plugin gets."""

from __future__ import annotations

from typing import Any

from ..data import ChatCompletionSample, PluginContext, Trajectory, as_parts
from ..proxy import RolloutInferenceProxy
from . import codec, load
from .load import Loaded


class BrokenRequest(Exception):
    """The body is not a request for this kind of plugin."""


def _trajectory(raw: dict[str, Any], parts: bool) -> Trajectory:
    trajectory = Trajectory.wrap(raw)
    if parts:
        as_parts(dict.get(trajectory, "messages"))
    return trajectory


def read(body: Any, loaded: Loaded, parts: bool) -> tuple[Loaded, tuple[Any, Any, Any]]:
    """The function that is called, and its arguments."""
    raw = codec.decode(body)
    name = raw.get("function")
    if name is not None:
        loaded = load.other(loaded, name)
    return loaded, arguments(raw, loaded.kind, parts)


def arguments(raw: dict[str, Any], kind: str, parts: bool) -> tuple[Any, Any, Any]:
    """The three arguments, the context first."""
    context = PluginContext.wrap(raw.get("context") or {})
    sample = ChatCompletionSample.wrap(raw.get("sample") or {})
    if parts:
        as_parts(dict.get(sample, "messages"))
    if kind == "rollout":
        proxy = raw.get("proxy") or {}
        made = RolloutInferenceProxy(
            sample,
            url=proxy.get("url", ""),
            jwt_token=proxy.get("jwt_token", ""),
            headers=proxy.get("headers"),
        )
        return context, made, sample
    if "trajectories" in raw:
        found = raw["trajectories"]
    elif "trajectory" in raw:
        found = [raw["trajectory"]]
    else:
        raise BrokenRequest("the request has neither a trajectory nor trajectories")
    trajectories = [_trajectory(item, parts) for item in found]
    if kind == "group_grader":
        return context, sample, trajectories
    if len(trajectories) != 1:
        raise BrokenRequest(f"a single grader takes one trajectory, not {len(trajectories)}")
    return context, sample, trajectories[0]

"""Paddock's SDK: what a plugin author imports.

Importing it needs the standard library alone and starts nothing: no thread, no loop, no client.
OpenAI's client is imported only when one is asked for.

    from paddock import GroupGraderResult, group_grader

    @group_grader
    def grader(context, sample, trajectories):
        wanted = sample.extra["answer"] return
        GroupGraderResult(rewards=[float(t.messages[-1].content == wanted) for t in trajectories])
"""

from ._version import __version__
from .data import (
    ChatCompletionMessage,
    ChatCompletionSample,
    PluginContext,
    Trajectory,
    Usage,
)
from .decorators import group_grader, rollout, single_grader
from .proxy import InferenceProxy, Mode, RolloutInferenceProxy
from .results import GroupGraderResult, PluginStatus, RolloutResult, SingleGraderResult
from .runtime import PluginInstance, Runtime
from .wrap import wrap_async_client_inplace, wrap_client_inplace

__all__ = [
    "__version__",
    "ChatCompletionMessage",
    "ChatCompletionSample",
    "GroupGraderResult",
    "InferenceProxy",
    "Mode",
    "PluginContext",
    "PluginInstance",
    "PluginStatus",
    "RolloutInferenceProxy",
    "RolloutResult",
    "Runtime",
    "SingleGraderResult",
    "Trajectory",
    "Usage",
    "group_grader",
    "rollout",
    "single_grader",
    "wrap_async_client_inplace",
    "wrap_client_inplace",
]

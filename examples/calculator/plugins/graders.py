"""Graders: was the answer right, and did it come from the calculator?"""

from __future__ import annotations

from paddock import (
    ChatCompletionSample,
    PluginContext,
    SingleGraderResult,
    Trajectory,
    single_grader,
)


@single_grader
def answer(
    context: PluginContext, sample: ChatCompletionSample, trajectory: Trajectory
) -> SingleGraderResult:
    """1 if the last message is the answer and nothing else, else 0."""
    said = trajectory.messages[-1]
    right = said.role == "assistant" and said.content == str(sample.extra["answer"])
    return SingleGraderResult(reward=float(right))


@single_grader
def tool_use(
    context: PluginContext, sample: ChatCompletionSample, trajectory: Trajectory
) -> SingleGraderResult:
    """1 if the calculator gave the answer at its first call, 0.5 at a later one, else 0."""
    results = trajectory.extra["results"]
    wanted = str(sample.extra["answer"])
    reward = 0.0
    if wanted in results:
        reward = 1.0 if results[0] == wanted else 0.5
    errors = sum(result.startswith("error") for result in results)
    return SingleGraderResult(
        reward=reward, metrics={"tool_calls": float(len(results)), "tool_errors": float(errors)}
    )

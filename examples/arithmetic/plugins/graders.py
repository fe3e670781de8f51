"""Two graders of a sum: is the number right, and is the answer nothing but a number?"""

from __future__ import annotations

import re

from paddock import (
    ChatCompletionSample,
    GroupGraderResult,
    PluginContext,
    SingleGraderResult,
    Trajectory,
    group_grader,
    single_grader,
)

NUMBER = re.compile(r"[0-9]+")


def last_text(trajectory: Trajectory) -> str:
    """What the model said last, or nothing."""
    content = trajectory.messages[-1].content
    return content if isinstance(content, str) else ""


@single_grader
def exact(
    context: PluginContext, sample: ChatCompletionSample, trajectory: Trajectory
) -> SingleGraderResult:
    """1 if the answer is the sum and nothing else, else 0."""
    right = last_text(trajectory) == str(sample.extra["answer"])
    return SingleGraderResult(reward=float(right))


@group_grader
def digits_only(
    context: PluginContext, sample: ChatCompletionSample, trajectories: list[Trajectory]
) -> GroupGraderResult:
    """1 for each answer that is a number and nothing else, else 0.

    It sees the whole group, so it can also tell how much the model's answers differ.
    """
    answers = [last_text(trajectory) for trajectory in trajectories]
    return GroupGraderResult(
        rewards=[float(NUMBER.fullmatch(answer) is not None) for answer in answers],
        metrics={"distinct_answers": float(len(set(answers)))},
    )

"""The control: the same rewards, dealt out at random within each group.

Nothing can be learnt from them, so held-out accuracy must stay where it was. A job that rises
under this grader measures something other than its reward.
"""

from __future__ import annotations

import random

from paddock import (
    ChatCompletionSample,
    GroupGraderResult,
    PluginContext,
    Trajectory,
    group_grader,
)

from plugins.graders import NUMBER, last_text


@group_grader
def shuffled(
    context: PluginContext, sample: ChatCompletionSample, trajectories: list[Trajectory]
) -> GroupGraderResult:
    """The weighted rewards of `exact` and `digits_only`; in training, in random order."""
    answers = [last_text(trajectory) for trajectory in trajectories]
    right = str(sample.extra["answer"])
    rewards = [
        0.9 * (answer == right) + 0.1 * (NUMBER.fullmatch(answer) is not None) for answer in answers
    ]
    exact = sum(answer == right for answer in answers) / len(answers)
    if context.phase == "train":
        random.shuffle(rewards)
    return GroupGraderResult(rewards=rewards, metrics={"exact": exact})

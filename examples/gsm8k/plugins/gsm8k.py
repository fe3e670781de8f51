"""Is the final answer of a solution the reference's?"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from paddock import (
    ChatCompletionSample,
    PluginContext,
    SingleGraderResult,
    Trajectory,
    single_grader,
)

ANSWER = re.compile(r"^\s*(?:A:|####)\s*(.+?)\s*$", re.MULTILINE)
"""The line of the final answer, in both forms that GSM8K is published in."""

NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]+")


def final_answer(solution: str) -> Decimal | None:
    """The number on the last answer line; nothing if there is no such line or no number on it.

    `$`, `%`, the commas between thousands and a full stop at the end are notation. Any other word
    or sign beside the number (a unit of scale, a sum, a name) makes it another answer, or none.
    """
    lines = ANSWER.findall(solution)
    if not lines:
        return None
    text = re.sub(r"[$%,\s]", "", lines[-1]).removesuffix(".")
    if NUMBER.fullmatch(text) is None:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


@single_grader
def answer_matches(
    context: PluginContext, sample: ChatCompletionSample, trajectory: Trajectory
) -> SingleGraderResult:
    """1 if the solution's final answer equals the reference's as a number, else 0."""
    wanted = final_answer(sample.extra["ground_truth"])
    if wanted is None:
        return SingleGraderResult(status="discard", error="the reference has no final answer")
    content = trajectory.messages[-1].content
    given = final_answer(content if isinstance(content, str) else "")
    return SingleGraderResult(
        reward=float(given == wanted), metrics={"answered": float(given is not None)}
    )

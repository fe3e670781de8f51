"""The game, as a rollout over several model calls, and its grader."""

from __future__ import annotations

import logging
import re

from paddock import (
    ChatCompletionSample,
    PluginContext,
    PluginStatus,
    RolloutInferenceProxy,
    RolloutResult,
    SingleGraderResult,
    Trajectory,
    rollout,
    single_grader,
)

MAX_GUESSES = 6
"""Guesses that a game has: enough to halve 32 numbers down to one."""

NUMBER = re.compile(r"[0-9]{1,4}")

log = logging.getLogger("game")


def answer_to(guess: str, secret: int) -> str | None:
    """What the game says to a guess; nothing once the number is found."""
    if NUMBER.fullmatch(guess) is None:
        return "number"
    if int(guess) == secret:
        return None
    return "higher" if int(guess) < secret else "lower"


@rollout
async def play(
    context: PluginContext, proxy: RolloutInferenceProxy, sample: ChatCompletionSample
) -> RolloutResult:
    """Plays one game and tells the grader how it went."""
    secret = sample.extra.get("secret")
    if not isinstance(secret, int):
        return RolloutResult(status=PluginStatus.DISCARD, error="the row has no whole `secret`")
    client = proxy.async_rollout_client()
    messages = [dict(message) for message in sample.messages]
    for guesses in range(1, MAX_GUESSES + 1):
        completion = await client.chat.completions.create(model="policy", messages=messages)
        reply = completion.choices[0].message
        said = answer_to(reply.content or "", secret)
        if said is None:
            log.debug("found %d with guess %d", secret, guesses)
            return RolloutResult(extra={"found": True, "guesses": guesses})
        if guesses < MAX_GUESSES:
            messages.append(reply.model_dump(exclude_none=True))
            messages.append({"role": "user", "content": said})
    log.debug("did not find %d", secret)
    return RolloutResult(extra={"found": False, "guesses": MAX_GUESSES})


@single_grader
def found_soon(
    context: PluginContext, sample: ChatCompletionSample, trajectory: Trajectory
) -> SingleGraderResult:
    """1 for the first guess, 0.1 less for each more, 0 for a number that was never found."""
    found, guesses = trajectory.extra["found"], trajectory.extra["guesses"]
    reward = 1.0 - 0.1 * (guesses - 1) if found else 0.0
    return SingleGraderResult(
        reward=reward, metrics={"found": float(found), "guesses": float(guesses)}
    )

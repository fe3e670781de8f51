"""The game, as a rollout over several model calls, and its graders."""

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


def read_number(guess: str | None) -> int | None:
    """The number that a guess is; nothing if it is something else."""
    return int(guess) if guess and NUMBER.fullmatch(guess) else None


@rollout
async def play(
    context: PluginContext, proxy: RolloutInferenceProxy, sample: ChatCompletionSample
) -> RolloutResult:
    """Plays one game and tells the grader how it went."""
    least, most, secret = (sample.extra.get(name) for name in ("low", "high", "secret"))
    if not all(isinstance(number, int) for number in (least, most, secret)):
        return RolloutResult(
            status=PluginStatus.DISCARD,
            error="the row's `low`, `high` and `secret` are not whole numbers",
        )
    client = proxy.async_rollout_client()
    messages = [dict(message) for message in sample.messages]
    found, guesses, sensible = False, 0, 0
    while guesses < MAX_GUESSES:
        completion = await client.chat.completions.create(model="policy", messages=messages)
        reply = completion.choices[0].message
        guesses += 1
        guess = read_number(reply.content)
        sensible += guess is not None and least <= guess <= most
        if guess is None:
            said = "number"
        elif guess < secret:
            said, least = "higher", max(least, guess + 1)
        elif guess > secret:
            said, most = "lower", min(most, guess - 1)
        else:
            found = True
            break
        messages.append(reply.model_dump(exclude_none=True))
        messages.append({"role": "user", "content": said})
    log.debug("secret %d: found %s, %d guesses", secret, found, guesses)
    return RolloutResult(extra={"found": found, "guesses": guesses, "sensible": sensible})


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


@single_grader
def still_possible(
    context: PluginContext, sample: ChatCompletionSample, trajectory: Trajectory
) -> SingleGraderResult:
    """The share of guesses that could still have been the number, by what the game had said."""
    return SingleGraderResult(reward=trajectory.extra["sensible"] / trajectory.extra["guesses"])

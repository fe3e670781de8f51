"""Calls that don't end by themselves, one of each kind, for the time from deadline to verdict."""

import asyncio
import re
import time

from paddock import SingleGraderResult, single_grader


@single_grader
def sleeps(context, sample, trajectory):
    """Waits in the interpreter."""
    time.sleep(600)
    return SingleGraderResult(reward=0.0)


@single_grader
def holds_the_interpreter(context, sample, trajectory):
    """Runs in C code that never comes back to the interpreter."""
    re.fullmatch(r"(a+)+b", "a" * 64)
    return SingleGraderResult(reward=0.0)


@single_grader
async def waits(context, sample, trajectory):
    """Waits on the event loop, and can be cancelled."""
    await asyncio.sleep(600)
    return SingleGraderResult(reward=0.0)


@single_grader
async def blocks_the_loop(context, sample, trajectory):
    """Holds the event loop."""
    time.sleep(600)
    return SingleGraderResult(reward=0.0)


@single_grader
async def swallows_cancellation(context, sample, trajectory):
    """Goes on after it was cancelled."""
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

"""Calls that share a process with one that brings it down."""
import asyncio
import os
import time

from paddock import RolloutResult, Runtime, rollout

from state import tell

R = Runtime(timeout=4, max_concurrency=8, max_replicas=3)
COUNT = 6
here = 0


def begins(context, sample):
    """What a call does that nobody should do twice: it is told once an attempt."""
    global here
    tell(f"{sample.extra['n']} {context.attempt}")
    here += 1


def is_guilty(sample):
    return sample.extra["n"] == 0


def may_go(context):
    """Everybody is there, or this is not the first time."""
    return context.attempt > 1 or here == COUNT


async def together(context, sample, act):
    await asyncio.to_thread(begins, context, sample)
    while not may_go(context):
        await asyncio.sleep(0.01)
    if is_guilty(sample):
        act()
    if context.attempt == 1:
        await asyncio.sleep(600)  # until the guilty one acts
    return RolloutResult()


@rollout(runtime=R)
async def one_exits(context, proxy, sample):
    return await together(context, sample, lambda: os._exit(3))


@rollout(runtime=R)
async def one_blocks(context, proxy, sample):
    return await together(context, sample, lambda: time.sleep(600))


@rollout(runtime=R)
def one_exits_in_a_thread(context, proxy, sample):
    begins(context, sample)
    while not may_go(context):
        time.sleep(0.01)
    if is_guilty(sample):
        os._exit(3)
    if context.attempt == 1:
        time.sleep(600)
    return RolloutResult()


@rollout(runtime=R)
async def healthy(context, proxy, sample):
    return RolloutResult()

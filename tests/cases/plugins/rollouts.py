"""Rollouts that go wrong."""
import asyncio
import math
import os

from paddock import RolloutResult, Runtime, rollout

R = Runtime(timeout=2, max_concurrency=4, max_replicas=2)


@rollout(runtime=R)
async def waits_for_ever(context, proxy, sample):
    await asyncio.sleep(3600)  # WAITS


@rollout(runtime=R)
def dies(context, proxy, sample):
    os._exit(4)


@rollout(runtime=R)
async def odd_extra(context, proxy, sample):
    deep = []
    for _ in range(500):
        deep = [deep]
    return RolloutResult(extra={"nan": math.nan, "set": {1}, "bytes": b"\xff", "deep": deep, "half": "\ud83d", 5: 2**70})


@rollout(runtime=R)
async def extra_is_a_list(context, proxy, sample):
    return RolloutResult(extra=[1, 2])


@rollout(runtime=R)
async def returns_nothing(context, proxy, sample):
    return None


@rollout(runtime=R)
async def returns_text(context, proxy, sample):
    return "done"


@rollout(runtime=Runtime(timeout=20))
async def over_the_limit(context, proxy, sample):
    return RolloutResult(extra={"text": "x" * (70 << 20)})


@rollout(runtime=R)
async def asks_nobody(context, proxy, sample):
    """Without a model there is nobody to ask; the address says so."""
    async with asyncio.timeout(1.5):
        _, host, *_ = proxy.url.split("/", 3)[1:]
        await asyncio.open_connection(host, 80)


@rollout(runtime=R)
async def healthy(context, proxy, sample):
    return RolloutResult()

"""Answers that are no results, odd ones that are, and errors of every shape."""
import asyncio
import dataclasses
import decimal
import enum
import math

from paddock import GroupGraderResult, Runtime, SingleGraderResult, group_grader, single_grader

from state import clean, ok

R = Runtime(timeout=20, max_concurrency=4, max_replicas=2)


def rewards(values, **more):
    return GroupGraderResult(rewards=values, **more)


@single_grader(runtime=R)
def one_nan(context, sample, trajectory):
    return SingleGraderResult(reward=math.nan)


@group_grader(runtime=R)
def minus_inf(context, sample, trajectories):
    return rewards([0.0, -math.inf])


@group_grader(runtime=R)
def huge_int(context, sample, trajectories):
    return rewards([1, 10**400])


@group_grader(runtime=R)
def longer_than_a_decimal(context, sample, trajectories):
    return rewards([1, 10**6000])  # Python itself refuses to write it


@group_grader(runtime=R)
def decimal_nan(context, sample, trajectories):
    return rewards([decimal.Decimal("NaN"), decimal.Decimal("Infinity")])


@group_grader(runtime=R)
def none_reward(context, sample, trajectories):
    return rewards([0.5, None])


@group_grader(runtime=R)
def text_reward(context, sample, trajectories):
    return rewards(["0.5", 1.0])


@group_grader(runtime=R)
def nested_rewards(context, sample, trajectories):
    return rewards([[0.5], [1.0]])


@group_grader(runtime=R)
def complex_reward(context, sample, trajectories):
    return rewards([1j, 1.0])


@group_grader(runtime=R)
def too_many(context, sample, trajectories):
    return rewards([1.0] * (len(trajectories) + 1))


@group_grader(runtime=R)
def none_at_all(context, sample, trajectories):
    return rewards([])


@group_grader(runtime=R)
def a_generator(context, sample, trajectories):
    return rewards(1.0 for _ in trajectories)


@group_grader(runtime=R)
def a_plain_list(context, sample, trajectories):
    return [1.0] * len(trajectories)


@group_grader(runtime=R)
def an_empty_dict(context, sample, trajectories):
    return {}


@group_grader(runtime=R)
def a_class(context, sample, trajectories):
    return GroupGraderResult


async def _later(trajectories):
    return ok(trajectories)


@group_grader(runtime=R)
async def not_awaited(context, sample, trajectories):
    return asyncio.sleep(0), _later(trajectories).close()


@group_grader(runtime=R)
def unknown_status(context, sample, trajectories):
    return {"status": "done", "rewards": [1.0] * len(trajectories)}


class Hostile:
    """A result whose every look raises."""

    @property
    def rewards(self):
        raise ValueError("don't look at me")

    status = "success"
    error = ""
    metrics = {}


@group_grader(runtime=R)
def hostile_result(context, sample, trajectories):
    return Hostile()


@group_grader(runtime=R)
def chained(context, sample, trajectories):
    try:
        {}["the first key"]
    except KeyError as error:
        raise ValueError("the second") from error  # CHAINED


@group_grader(runtime=R)
def grouped(context, sample, trajectories):
    raise ExceptionGroup("many", [ValueError("one of them"), TypeError("another of them")])


@group_grader(runtime=R)
def own_timeout(context, sample, trajectories):
    raise TimeoutError("the judge took too long")  # a fault of the function's, no deadline of ours


@group_grader(runtime=R)
async def own_async_timeout(context, sample, trajectories):
    async with asyncio.timeout(0.05):
        await asyncio.sleep(60)


@group_grader(runtime=R)
async def own_cancellation(context, sample, trajectories):
    raise asyncio.CancelledError("by itself")


@group_grader(runtime=R)
def raises_a_book(context, sample, trajectories):
    raise ValueError("word " * 2_000_000)


@group_grader(runtime=R)
def raises_a_surrogate(context, sample, trajectories):
    raise ValueError("half a pair \ud83d and \x00 and \u2028")


class Sly(Exception):
    def __str__(self):
        return 5

    __repr__ = __str__


@group_grader(runtime=R)
def raises_no_text(context, sample, trajectories):
    raise Sly


@group_grader(runtime=R)
def raises_at_depth(context, sample, trajectories):
    def down(n):
        return down(n - 1) if n else 1 / 0

    return down(300)


@group_grader(runtime=R)
def over_the_limit(context, sample, trajectories):
    return rewards([1.0] * len(trajectories), metrics={"x" * 1000 + str(n): 1.0 for n in range(70_000)})


@group_grader(runtime=R)
def large(context, sample, trajectories):
    return rewards([1.0] * len(trajectories), metrics={f"key {n}": 1.0 for n in range(200_000)})


@group_grader(runtime=R)
def error_with_everything(context, sample, trajectories):
    return rewards([], status="failure", error="half \ud83d, nul \x00, line\u2028end \x1b[31m好")


@group_grader(runtime=R)
def a_dict(context, sample, trajectories):
    return {"rewards": (True, 0), "metrics": {1: 2, "none": None, "text": "x"}}


class Good(float):
    def __repr__(self):
        raise RuntimeError("no repr")


class Grade(enum.IntEnum):
    PASS = 1


@group_grader(runtime=R)
def numbers_of_a_kind(context, sample, trajectories):
    return rewards([Good(0.5), Grade.PASS])


@dataclasses.dataclass
class Own:
    rewards: list
    status: str = "SUCCESS"
    error: str = ""
    metrics: dict = dataclasses.field(default_factory=dict)


@group_grader(runtime=R)
def own_dataclass(context, sample, trajectories):
    return Own([0.25, 0.75])


@group_grader(runtime=R)
def healthy(context, sample, trajectories):
    return clean(trajectories)

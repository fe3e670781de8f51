"""The trivial grader that every peer runs: is the last message the answer?"""

from paddock import SingleGraderResult, single_grader


@single_grader
def grade(context, sample, trajectory):
    """As a plain function: a process for each call in flight."""
    right = trajectory.messages[-1].content == sample.extra["answer"]
    return SingleGraderResult(reward=float(right))


@single_grader
async def grade_async(context, sample, trajectory):
    """As a coroutine: one event loop an instance."""
    right = trajectory.messages[-1].content == sample.extra["answer"]
    return SingleGraderResult(reward=float(right))

"""A grader that does what its row says: mostly its work, now and then the worst."""

import os
import time

from paddock import SingleGraderResult, single_grader


@single_grader
def act(context, sample, trajectory):
    """Its row names the act, and a number to give back."""
    what = sample.extra["act"]
    if what == "hang":
        time.sleep(600)
    elif what == "crash":
        os.abort()
    elif what == "raise":
        raise ValueError(f"call {sample.extra['number']}")
    elif what == "nan":
        return SingleGraderResult(reward=float("nan"))
    return SingleGraderResult(reward=float(sample.extra["number"]))

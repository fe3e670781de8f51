import threading
import time

from paddock import GroupGraderResult, group_grader

# A fork wouldn't have it: the slots must be interpreters of their own.
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


@group_grader
def grader(context, sample, trajectories):
    alive = sum(t.is_alive() for t in threading.enumerate())
    assert alive >= 2, "the import's thread isn't here"
    return GroupGraderResult(rewards=[1.0] * len(trajectories))

import subprocess

from paddock import GroupGraderResult, group_grader

HELPER = subprocess.Popen(["sleep", "641"])


@group_grader
def grader(context, sample, trajectories):
    assert HELPER.pid
    return GroupGraderResult(rewards=[1.0] * len(trajectories))

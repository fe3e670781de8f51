import logging
import sys

print("printed at import")
print("x" * 1_000_000)
for _ in range(50_000):
    print("a line of a flood", file=sys.stderr)
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("at.import").info("logged at import")
sys.stdout.buffer.write(b"\xff\x00 bytes at import\n")

from paddock import GroupGraderResult, group_grader


@group_grader
def grader(context, sample, trajectories):
    print("printed in the call")
    return GroupGraderResult(rewards=[1.0] * len(trajectories))

"""Calls that want more memory than their instance has. They need a limit: without one they aren't run."""
import os
import subprocess
import sys
import time

from paddock import Runtime, group_grader

from state import ok

R = Runtime(timeout=20, max_concurrency=4, max_replicas=1)


def grow():
    hoard = []
    while True:
        hoard.append(bytearray(32 << 20))


@group_grader(runtime=R)
def grows(context, sample, trajectories):
    print("about to grow")
    grow()


@group_grader(runtime=R)
def grows_in_a_program(context, sample, trajectories):
    """The program dies, and the call would go on with what is left of it."""
    code = "hoard = []\nwhile True: hoard.append(bytearray(32 << 20))"
    subprocess.run([sys.executable, "-c", code])
    time.sleep(10)
    return ok(trajectories)


@group_grader(runtime=R)
async def grows_in_a_loop(context, sample, trajectories):
    grow()


@group_grader(runtime=Runtime(timeout=20, concurrency="thread"))
def grows_in_a_thread(context, sample, trajectories):
    grow()


@group_grader(runtime=R)
def is_killed_for_something_else(context, sample, trajectories):
    """A SIGKILL is no want of memory."""
    os.kill(os.getpid(), 9)


@group_grader(runtime=R)
def healthy(context, sample, trajectories):
    return ok(trajectories)

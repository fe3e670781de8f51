"""Calls that take their process with them, and calls that only look like it."""
import asyncio
import ctypes
import os
import signal
import sys
import threading
import time

from paddock import Runtime, group_grader

from state import clean, ok

R = Runtime(timeout=10, max_concurrency=4, max_replicas=2)


@group_grader(runtime=R)
def exits_with_zero(context, sample, trajectories):
    print("last words")
    os._exit(0)


@group_grader(runtime=R)
def aborts(context, sample, trajectories):
    os.abort()


@group_grader(runtime=R)
def divides_in_c(context, sample, trajectories):
    os.kill(os.getpid(), signal.SIGFPE)


@group_grader(runtime=R)
def is_terminated(context, sample, trajectories):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(5)


@group_grader(runtime=R)
def is_killed_by_its_child(context, sample, trajectories):
    parent = os.getpid()
    if os.fork() == 0:
        os.kill(parent, signal.SIGKILL)
        time.sleep(600)
    time.sleep(5)


@group_grader(runtime=R)
def exits_from_a_thread(context, sample, trajectories):
    threading.Thread(target=os._exit, args=(5,)).start()
    time.sleep(5)


@group_grader(runtime=R)
def becomes_another_program(context, sample, trajectories):
    os.execv("/bin/false", ["false"])


@group_grader(runtime=R)
def writes_to_null(context, sample, trajectories):
    ctypes.memset(8, 0, 1)


@group_grader(runtime=R)
def floods_and_dies(context, sample, trajectories):
    for n in range(20_000):
        print(f"line {n}")
    print("the very last line")
    sys.stdout.flush()
    os._exit(7)


@group_grader(runtime=R)
def closes_everything(context, sample, trajectories):
    os.closerange(0, 65_536)  # its sockets too: nobody can hear its answer
    return ok(trajectories)


@group_grader(runtime=R)
async def dies_in_a_coroutine(context, sample, trajectories):
    os._exit(9)


@group_grader(runtime=R)
async def closes_many_in_a_loop(context, sample, trajectories):
    os.closerange(3, 256)  # the loop's own descriptors are among them
    await asyncio.sleep(0.01)
    return ok(trajectories)


@group_grader(runtime=Runtime(timeout=10, concurrency="thread"))
def closes_many_in_a_thread(context, sample, trajectories):
    os.closerange(3, 256)
    return ok(trajectories)


@group_grader(runtime=R)
async def closes_everything_in_a_loop(context, sample, trajectories):
    os.closerange(0, 65_536)
    await asyncio.sleep(600)


@group_grader(runtime=R)
async def stops_the_loop(context, sample, trajectories):
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return ok(trajectories)


@group_grader(runtime=R)
async def exits_in_a_task(context, sample, trajectories):
    async def leave():
        sys.exit("from a task")

    task = asyncio.create_task(leave())
    await asyncio.wait([task])
    return ok(trajectories)


@group_grader(runtime=R)
async def nests_a_loop(context, sample, trajectories):
    asyncio.run(asyncio.sleep(0))


@group_grader(runtime=R)
def aborts_beside_threads(context, sample, trajectories):
    for _ in range(4):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    os.abort()  # ABORTS-HERE


@group_grader(runtime=Runtime(timeout=10, concurrency="thread"))
def dies_in_a_thread(context, sample, trajectories):
    os._exit(11)


@group_grader(runtime=R)
def loses_a_child(context, sample, trajectories):
    """A child's death is the call's own business."""
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return ok(trajectories, signal=os.WTERMSIG(status))


@group_grader(runtime=R)
def forgets_children(context, sample, trajectories):
    """Children that nobody waits for: they end with the call, and cost it nothing."""
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(600)
    return ok(trajectories)


@group_grader(runtime=R)
def leaves_a_daemon(context, sample, trajectories):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.execve("/bin/sleep", ["sleep", "621"], {})
        os._exit(0)
    os.wait()
    return ok(trajectories)


@group_grader(runtime=R)
async def leaves_a_daemon_in_a_loop(context, sample, trajectories):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sleep", ["sleep", "622"], {})
        os._exit(0)
    os.wait()
    return ok(trajectories)


@group_grader(runtime=R)
def comes_back_twice(context, sample, trajectories):
    """A child that comes back out of the function is no second answer."""
    os.fork()
    return ok(trajectories, pid=float(os.getpid()))


@group_grader(runtime=R)
def raises_system_exit_in_a_thread(context, sample, trajectories):
    worker = threading.Thread(target=sys.exit, args=(3,))
    worker.start()
    worker.join()
    return ok(trajectories)


@group_grader(runtime=R)
async def interrupts_the_loop(context, sample, trajectories):
    raise KeyboardInterrupt("from a coroutine")


@group_grader(runtime=R)
def healthy(context, sample, trajectories):
    return clean(trajectories)

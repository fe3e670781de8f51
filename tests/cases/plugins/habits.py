"""What plugins and their libraries do every day. It must simply work, and leave nothing behind."""
import asyncio
import atexit
import concurrent.futures
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref

from paddock import Runtime, group_grader

from state import clean, ok

R = Runtime(timeout=20, max_concurrency=2, max_replicas=1)


@group_grader(runtime=R)
def leaves_its_mark(context, sample, trajectories):
    os.environ["LEFT_BEHIND"] = "1"
    os.chdir(tempfile.gettempdir())
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 30)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return ok(trajectories)


@group_grader(runtime=R)
def an_alarm_goes_off_late(context, sample, trajectories):
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("late"))
    signal.alarm(1)
    return ok(trajectories)


@group_grader(runtime=R)
def runs_a_loop_of_its_own(context, sample, trajectories):
    async def later():
        await asyncio.sleep(0.01)
        return 3.0

    return ok(trajectories, got=asyncio.run(later()))


@group_grader(runtime=R)
def keeps_a_loop_open(context, sample, trajectories):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(asyncio.sleep(0))
    return ok(trajectories)


@group_grader(runtime=R)
def uses_pools(context, sample, trajectories):
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(abs, [-1, -2])) == [1, 2]
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        assert list(processes.map(abs, [-1, -2])) == [1, 2]
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=print, args=("spawned",))
    worker.start()
    worker.join(15)
    assert worker.exitcode == 0, worker.exitcode
    return ok(trajectories)


@group_grader(runtime=R)
def writes_files(context, sample, trajectories):
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "a"), "w") as file:
        file.write("x")
    with open("beside_the_plugin.txt", "w") as file:
        file.write("x")
    assert tempfile.mkstemp()
    return ok(trajectories)


@group_grader(runtime=R)
def runs_code_apart(context, sample, trajectories):
    """What a grader of programs does: run the answer with a limit of its own."""
    done = subprocess.run([sys.executable, "-c", "print(6*7)"], capture_output=True, timeout=15)
    assert done.stdout == b"42\n", done
    try:
        subprocess.run(["sleep", "631"], timeout=0.2)
    except subprocess.TimeoutExpired:
        return ok(trajectories)


@group_grader(runtime=R)
def draws_numbers(context, sample, trajectories):
    first = random.random()
    return ok(trajectories, drawn=first, pid=float(os.getpid()))


@group_grader(runtime=R)
def makes_garbage(context, sample, trajectories):
    class Noisy:
        def __del__(self):
            raise RuntimeError("in a finaliser")

    one = Noisy()
    weakref.finalize(one, print, "finalised")
    del one
    gc.collect()
    atexit.register(print, "at exit")
    return ok(trajectories)


@group_grader(runtime=R)
def changes_how_python_works(context, sample, trajectories):
    sys.setrecursionlimit(10_000)
    sys.settrace(lambda *_: None)
    gc.disable()
    return ok(trajectories)


@group_grader(runtime=R)
async def cancels_its_own_tasks(context, sample, trajectories):
    task = asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task])
    assert done
    return ok(trajectories)


@group_grader(runtime=R)
async def leaves_a_task(context, sample, trajectories):
    asyncio.get_running_loop().create_task(asyncio.sleep(0.3))
    return ok(trajectories)


@group_grader(runtime=R)
def healthy(context, sample, trajectories):
    return clean(trajectories)

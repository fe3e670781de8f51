"""Calls that don't come back, each in a way of its own."""
import asyncio
import ctypes
import itertools
import multiprocessing
import os
import queue
import signal
import subprocess
import threading
import time

from paddock import Runtime, group_grader, single_grader

from state import clean, forever, ok

R = Runtime(timeout=1, max_concurrency=4, max_replicas=2)


@group_grader(runtime=R)
def turns_in_python(context, sample, trajectories):
    while True: pass  # IN-PYTHON


@group_grader(runtime=R)
def turns_in_c(context, sample, trajectories):
    sum(itertools.repeat(1))  # IN-C: holds the interpreter's lock for ever
    return ok(trajectories)


@group_grader(runtime=R)
def sleeps_in_c_with_the_lock(context, sample, trajectories):
    ctypes.PyDLL(None).sleep(600)  # LOCKED-SLEEP: another library's call that never lets the lock go
    return ok(trajectories)


@group_grader(runtime=R)
def waits_for_a_queue(context, sample, trajectories):
    queue.Queue().get()  # NOBODY-PUTS
    return ok(trajectories)


@group_grader(runtime=R)
def waits_for_a_thread(context, sample, trajectories):
    def works_for_ever():
        time.sleep(600)  # WORKS

    worker = threading.Thread(target=works_for_ever)
    worker.start()
    worker.join()  # JOINS
    return ok(trajectories)


@group_grader(runtime=R)
def waits_for_a_program(context, sample, trajectories):
    subprocess.run(["sleep", "611"])  # RUNS-A-PROGRAM
    return ok(trajectories)


@group_grader(runtime=R)
def waits_for_a_pool(context, sample, trajectories):
    with multiprocessing.Pool(2) as pool:
        pool.map(time.sleep, [600, 600])  # POOL
    return ok(trajectories)


@group_grader(runtime=R)
def blocks_every_signal(context, sample, trajectories):
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)  # DEAF
    return ok(trajectories)


@group_grader(runtime=R)
def stops_itself(context, sample, trajectories):
    os.kill(os.getpid(), signal.SIGSTOP)
    return ok(trajectories)


@group_grader(runtime=R)
def catches_everything(context, sample, trajectories):
    while True:
        try:
            time.sleep(600)  # STUBBORN
        except BaseException:
            pass


@single_grader(runtime=R)
def hangs_on_one_trajectory(context, sample, trajectory):
    time.sleep(600)  # SINGLE


@group_grader(runtime=R)
def forks_for_ever(context, sample, trajectories):
    """A child that forks a child and ends, over and over: whoever kills it must be faster."""
    if os.fork() == 0:
        for _ in range(100_000):
            os.setsid() if os.getpid() != os.getsid(0) else None
            if os.fork() != 0:
                os._exit(0)
            time.sleep(0.002)
    time.sleep(600)  # FORKS


@group_grader(runtime=R)
def hides_a_daemon(context, sample, trajectories):
    """A daemon with nothing of the call's on it: own session, empty environment, other folder."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.execve("/bin/sleep", ["sleep", "612"], {})
        os._exit(0)
    time.sleep(600)  # DAEMON


@group_grader(runtime=R)
async def blocks_the_loop(context, sample, trajectories):
    await asyncio.sleep(0)
    subprocess.run(["sleep", "613"])  # BLOCKS
    return ok(trajectories)


@group_grader(runtime=R)
async def blocks_the_loop_in_c(context, sample, trajectories):
    await asyncio.sleep(0)
    sum(itertools.repeat(1))  # BLOCKS-IN-C
    return ok(trajectories)


@group_grader(runtime=R)
async def awaits_for_ever(context, sample, trajectories):
    await asyncio.gather(forever(), forever())  # GATHERS
    return ok(trajectories)


@group_grader(runtime=R)
async def swallows_in_a_task(context, sample, trajectories):
    async def stubborn():
        while True:
            try:
                await asyncio.sleep(3600)  # STUBBORN-TASK
            except asyncio.CancelledError:
                pass

    await asyncio.shield(asyncio.create_task(stubborn()))


@group_grader(runtime=R)
async def hangs_in_an_executor(context, sample, trajectories):
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)  # EXECUTOR


@group_grader(runtime=R)
async def awaits_a_program(context, sample, trajectories):
    program = await asyncio.create_subprocess_exec("sleep", "614")
    await program.wait()  # AWAITS-A-PROGRAM


@group_grader(runtime=Runtime(timeout=1, concurrency="thread"))
def hangs_in_a_thread(context, sample, trajectories):
    time.sleep(600)  # THREAD


@group_grader(runtime=Runtime(timeout=1, concurrency="thread"))
def runs_a_program_in_a_thread(context, sample, trajectories):
    subprocess.run(["sleep", "615"])  # THREAD-PROGRAM


@group_grader(runtime=R)
def healthy(context, sample, trajectories):
    return ok(trajectories)

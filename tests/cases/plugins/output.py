"""What calls print, in every amount, encoding and way."""
import asyncio
import concurrent.futures
import contextlib
import ctypes
import io
import logging
import os
import subprocess
import sys
import threading

from paddock import Runtime, group_grader

from state import clean, ok

R = Runtime(timeout=20, max_concurrency=8, max_replicas=1)
log = logging.getLogger("mine")


@group_grader(runtime=R)
def bytes_of_any_kind(context, sample, trajectories):
    sys.stdout.buffer.write(b"latin \xe9, nul \x00, esc \x1b[2J\r\nnext\n")
    sys.stderr.buffer.write("utf-16".encode("utf-16") + b"\n")
    print("half a pair \ud83d", "line\u2028end", "paragraph\u2029end", "next\x85line")
    return ok(trajectories)


@group_grader(runtime=R)
def one_long_line(context, sample, trajectories):
    print("begins", end=" ")
    print("x" * 10_000_000)
    print("after it")
    return ok(trajectories)


@group_grader(runtime=R)
def from_c(context, sample, trajectories):
    libc = ctypes.CDLL(None)
    libc.puts(b"put by C")  # stays in C's buffer until somebody flushes it
    libc.printf(b"printed by C %d\n", 5)
    return ok(trajectories)


@group_grader(runtime=R)
def from_children(context, sample, trajectories):
    subprocess.run(["sh", "-c", "echo from a shell; echo its error >&2"], check=True)
    pid = os.fork()
    if pid == 0:
        print("from a fork")
        log.warning("logged in a fork")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    return ok(trajectories)


@group_grader(runtime=R)
def from_threads(context, sample, trajectories):
    worker = threading.Thread(target=print, args=("from a thread",))
    worker.start()
    worker.join()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        pool.submit(log.info, "logged in a pool").result()
    return ok(trajectories)


@group_grader(runtime=R)
def closes_its_output(context, sample, trajectories):
    print("before")
    os.close(1)
    os.close(2)
    with contextlib.suppress(OSError):
        print("nobody hears this")
    return ok(trajectories)


@group_grader(runtime=R)
def loses_its_streams(context, sample, trajectories):
    print("before")
    sys.stdout = sys.stderr = None
    return ok(trajectories)


@group_grader(runtime=R)
def takes_its_streams(context, sample, trajectories):
    sys.stdout = io.StringIO()
    print("into a text")
    sys.__stdout__.write("past it\n")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        print("caught", file=sys.stderr)
    assert said.getvalue() == "caught\n"
    return ok(trajectories)


@group_grader(runtime=R)
def floods_by_logging(context, sample, trajectories):
    for n in range(100_000):
        log.info("line %d of very many", n)
    return ok(trajectories)


@group_grader(runtime=R)
def floods_from_a_child(context, sample, trajectories):
    subprocess.run(["sh", "-c", "yes flood | head -c 40000000; echo over"], check=True)
    return ok(trajectories)


@group_grader(runtime=R)
def empty_lines(context, sample, trajectories):
    sys.stdout.write("\n" * 500_000)
    return ok(trajectories)


@group_grader(runtime=R)
def writes_without_an_end(context, sample, trajectories):
    sys.stdout.write("no line end here")
    sys.stdout.flush()
    os.write(2, b"nor here")
    return ok(trajectories)


@group_grader(runtime=R)
def logs_badly(context, sample, trajectories):
    class Broken:
        def __str__(self):
            raise RuntimeError("not today")

    log.info("%d apples", "many")
    log.info("%s", Broken())
    log.log(5, "too quiet")
    log.critical("loud")
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("caught one")
    logging.basicConfig(level=logging.DEBUG, force=True)
    return ok(trajectories)


@group_grader(runtime=R)
async def prints_in_a_loop(context, sample, trajectories):
    print("printed in a loop")
    sys.stdout.buffer.write(b"bytes in a loop \xff\n")
    sys.stdout.buffer.flush()
    log.info("logged in a loop")
    return ok(trajectories)


@group_grader(runtime=R)
async def floods_in_a_loop(context, sample, trajectories):
    for _ in range(100_000):
        print("y" * 200)
    return ok(trajectories)


@group_grader(runtime=Runtime(timeout=20, concurrency="thread"))
def prints_in_a_thread(context, sample, trajectories):
    print("printed in a thread")
    sys.stdout.buffer.write(b"bytes in a thread \xff\n")
    log.info("logged in a thread")
    sys.stderr.write("without an end")
    return ok(trajectories)


@group_grader(runtime=Runtime(timeout=20, concurrency="thread"))
def floods_in_a_thread(context, sample, trajectories):
    for _ in range(100_000):
        print("z" * 200)
    return ok(trajectories)


@group_grader(runtime=R)
async def long_line_in_a_loop(context, sample, trajectories):
    print("begins", end=" ")
    print("x" * 10_000_000)
    print("after it")
    return ok(trajectories)


@group_grader(runtime=R)
async def closes_its_output_in_a_loop(context, sample, trajectories):
    print("before")
    os.close(1)
    os.close(2)
    print("still heard")
    return ok(trajectories)


async def _everywhere(n):
    """Says its number in every way that keeps to its call."""
    loop = asyncio.get_running_loop()
    print(f"printed {n}")
    await asyncio.sleep(0.01)
    log.info("logged %s", n)
    await asyncio.gather(
        asyncio.to_thread(log.info, f"to a thread {n}"),
        loop.run_in_executor(None, print, f"in the executor {n}"),
    )
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        await loop.run_in_executor(pool, log.warning, f"in a pool {n}")
        await asyncio.wrap_future(pool.submit(print, f"submitted {n}"))


@group_grader(runtime=R)
async def says_its_number(context, sample, trajectories):
    await _everywhere(sample.extra["n"])
    return ok(trajectories)


@group_grader(runtime=Runtime(timeout=20, max_concurrency=8, max_replicas=1, concurrency="thread"))
def says_its_number_in_a_thread(context, sample, trajectories):
    n = sample.extra["n"]
    print(f"printed {n}")
    log.info("logged %s", n)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(print, [f"in a pool {n}", f"again {n}"]))
    return ok(trajectories)


@group_grader(runtime=R)
def healthy(context, sample, trajectories):
    return clean(trajectories)

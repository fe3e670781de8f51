"""One limit for frames, told at the fork; and what calls leave in a process that they share."""

from __future__ import annotations

import os
import random
import struct
import time

import pytest
from driver import ANSWER, CALL, CANCEL, DEADLINE, Closed, body, frame

from paddock._worker import frames

OK = "return GroupGraderResult(rewards=[1.0] * len(trajectories))"
LIMIT = 100_000


def of(size: int) -> bytes:
    """A call whose frame's length is `size`."""
    import json

    raw = json.dumps(body(extra={"x": ""})).encode()
    return frame(CALL, 1, 1, raw.replace(b'"x": ""', b'"x": "%s"' % (b"x" * (size - 13 - len(raw)))))


@pytest.mark.parametrize("mode", ["process", "thread", "loop"])
def test_the_limit_of_a_frame_is_the_runtimes(serve, mode) -> None:
    word = "async def" if mode == "loop" else "def"
    source = f"@group_grader\n{word} f(context, sample, trajectories):\n    {OK}\n"
    slot = serve(source, mode, frame_limit=LIMIT)
    whole = of(LIMIT)
    assert struct.unpack_from("<I", whole) == (LIMIT,)
    slot.data.sendall(whole)
    assert slot.answer()[2]["status"] == "success"
    slot.data.sendall(of(LIMIT + 1))
    with pytest.raises(Closed):
        slot.answer()
    slot.wait_gone()


def test_an_answer_over_the_limit_is_told_within_it(serve) -> None:
    slot = serve(
        """
        @rollout
        def f(context, proxy, sample):
            print("y" * sample.extra["size"])
            os.environ["LEFT"] = "z" * sample.extra["size"]
            return RolloutResult(extra={"x": "x" * sample.extra["size"]})
        """,
        frame_limit=LIMIT,
    )
    for size in (LIMIT // 2, LIMIT - 5_000, LIMIT, 2 * LIMIT):
        slot.send(1, body("rollout", extra={"size": size}))
        kind, _, _, answer = slot.frames.next()
        assert kind == ANSWER
        assert answer["residue"]
        if size > LIMIT // 2:
            assert "allowed are 97.7 KiB (frame_limit)" in answer["bad_result"], answer
        else:
            assert len(answer["extra"]["x"]) == size


def test_frames_are_cut_out_of_any_pieces() -> None:
    choice = random.Random(5)
    for _ in range(300):
        sent = [
            (choice.randrange(256), choice.getrandbits(64), choice.getrandbits(32), choice.randbytes(choice.choice([0, 3, 900, 300_000])))
            for _ in range(choice.randrange(1, 5))
        ]
        stream = b"".join(frame(*each) for each in sent)
        got, at, incoming = [], 0, frames.Frames()
        while at < len(stream):
            space = incoming.space()
            count = min(len(space), choice.randrange(1, 400_000), len(stream) - at)
            assert count
            space[:count] = stream[at : at + count]
            incoming.came(count)
            at += count
            while (found := incoming.take()) is not None:
                got.append((*found[:3], bytes(found[3])))
        assert got == sent


def test_noise_is_no_frame_and_takes_no_memory() -> None:
    choice = random.Random(7)
    for _ in range(300):
        incoming = frames.Frames()
        try:
            for _ in range(50):
                noise = choice.randbytes(choice.randrange(1, 40))
                space = incoming.space()
                noise = noise[: len(space)]
                space[: len(noise)] = noise
                incoming.came(len(noise))
                while incoming.take() is not None:
                    pass
        except frames.BrokenFrame:
            pass
        assert len(incoming._buffer) <= frames.LIMIT + 4


def gone(pid: int) -> None:
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                if stat.read().rpartition(")")[2].split()[0] in "ZX":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.005)
    raise AssertionError(f"{pid} is still there")


LEAVES = """
import subprocess
POOL = []

@group_grader
async def f(context, sample, trajectories):
    what = sample.extra["do"]
    if what == "wait":
        program = await asyncio.create_subprocess_exec("sh", "-c", "sleep 600 & wait")
        print("pid", program.pid, flush=True)
        await program.wait()
    if what == "orphan":
        subprocess.run(["sh", "-c", "sleep 600 & echo $!"])
    if what == "keep":
        POOL.append(subprocess.Popen(["sleep", "600"]))
    return GroupGraderResult(rewards=[1.0] * len(trajectories))
"""


def test_a_cancelled_call_takes_its_processes_along(serve) -> None:
    slot = serve(LEAVES, "loop")
    slot.send(1, body(extra={"do": "wait"}))
    until = time.monotonic() + DEADLINE
    while not slot.read_logs(0.05):
        assert time.monotonic() < until
    pid = int(slot.logs[0]["text"].split()[1])
    children: list[str] = []
    while not children:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
            children = listed.read().split()
    slot.tell(CANCEL, 1)
    _, _, answer = slot.answer()
    assert "child processes still run: sh" in answer["residue"][0]
    for each in (pid, *map(int, children)):
        gone(each)


def test_orphans_are_told_and_a_plugin_s_own_pool_is_not(serve) -> None:
    slot = serve(LEAVES, "loop")
    assert "residue" not in slot.call(body(extra={"do": "keep"}))
    assert "residue" not in slot.call(body(extra={"do": "nothing"}))
    answer = slot.call(body(extra={"do": "orphan"}))
    # It may not have become its program yet: what is told is the name that it has then.
    assert "child processes still run: " in answer["residue"][0]
    orphan = int(slot.stdout.wait_for("\n"))
    os.kill(orphan, 9)


def test_blocked_signals_are_residue(grader) -> None:
    slot = grader(f"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n{OK}")
    assert slot.call(body())["residue"] == ["signals are blocked or let through: SIGUSR1"]
    assert slot.call(body())["residue"]

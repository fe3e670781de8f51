"""Stacks and logs: what a call tells while it runs and when it hangs."""

from __future__ import annotations

import os
import signal

import pytest
from driver import DUMP, body

OK = "return GroupGraderResult(rewards=[1.0] * len(trajectories))"
MODES = ["process", "thread", "loop"]


def running(slot, mode: str, call: int = 1) -> None:
    """Waits until the plugin has said that it runs."""
    if mode == "process":
        slot.stdout.wait_for("runs")
        return
    for _ in range(1000):
        if any(line["text"] == "runs" and line["call"] == call for line in slot.read_logs(0.05)):
            return
    raise TimeoutError("it doesn't run")


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_the_stack_of_a_sleeping_call(grader, mode) -> None:
    slot = grader("print('runs', flush=True)\ntime.sleep(60)  # HERE", mode)
    slot.send(7, body(), attempt=3)
    running(slot, mode, 7)
    told = slot.dump(7, 3)
    assert told == {
        "stack": "plugin.py:6 in f\n    time.sleep(60)  # HERE",
        "blocked_loop": False,
        "running": 7,
        "place": "plugin.py:6 in f",
    }
    assert slot.dump(8, 1)["stack"] == ""


def test_the_whole_await_chain_of_a_suspended_call(serve) -> None:
    slot = serve(
        """
        async def innermost():
            await asyncio.sleep(60)  # INNERMOST

        async def inner():
            await asyncio.wait_for(innermost(), 100)  # INNER

        async def beside():
            await asyncio.Event().wait()  # BESIDE

        @group_grader
        async def f(context, sample, trajectories):
            task = asyncio.create_task(beside(), name="kept")
            print("runs")
            await asyncio.gather(inner(), beside())  # OUTER
        """,
        "loop",
    )
    slot.send(1, body())
    running(slot, "loop")
    told = slot.dump()
    assert not told["blocked_loop"]
    assert told["place"].endswith(("in innermost", "in beside"))
    places = ["# OUTER", "# INNER", "# INNERMOST"]
    assert sorted(places, key=told["stack"].index) == places
    assert "BESIDE" in told["stack"]
    assert "kept, a task that it started" in told["stack"]
    assert "_worker" not in told["stack"]


def test_a_blocked_loop_is_told_with_who_blocks_it(serve) -> None:
    slot = serve(
        """
        @group_grader
        async def f(context, sample, trajectories):
            print("runs")
            if sample.extra.get("block"):
                await asyncio.sleep(0)
                time.sleep(60)  # BLOCKS
            await asyncio.sleep(60)  # WAITS
        """,
        "loop",
    )
    slot.send(1, body())
    running(slot, "loop", 1)
    slot.send(2, body(extra={"block": True}))
    running(slot, "loop", 2)
    innocent, guilty = slot.dump(1), slot.dump(2)
    assert innocent["blocked_loop"]
    assert guilty["blocked_loop"]
    assert innocent["running"] == guilty["running"] == 2
    assert "blocked by another call" in innocent["stack"]
    assert "# WAITS" in innocent["stack"]
    assert "event loop is blocked by this call" in guilty["stack"]
    assert "# BLOCKS" in guilty["stack"]
    assert guilty["place"] == "plugin.py:8 in f"
    assert innocent["place"] == "plugin.py:9 in f"


@pytest.mark.parametrize("mode", MODES)
def test_a_call_in_c_code_that_holds_the_interpreter(grader, mode) -> None:
    slot = grader(
        "import re\nprint('runs', flush=True)\nre.match(r'(a+)+$', 'a' * 40 + 'b')  # IN C", mode
    )
    slot.send(1, body())
    running(slot, mode)
    slot.tell(DUMP, 1)  # nobody can answer it
    os.kill(slot.pid, signal.SIGUSR2)
    assert 'plugin.py", line 7 in f' in slot.stack.wait_for("line 7 in f")
    os.kill(slot.pid, signal.SIGKILL)


PRINTS = """
    logger = logging.getLogger("judge")
    logger.info("grading %s", sample.extra)
    logger.error("with a traceback", exc_info=ValueError("shown"))
    logger.warning("bad %d", "format")
    logger.debug("not told")
    print("a print")
    print("an error print", file=sys.stderr)
    sys.stdout.write("half a line, ")
    sys.stdout.write("and its end\\nand half a line without")
    sys.stdout.buffer.write(b"\\xff\\xfe not utf-8 \\x00\\n")
    logger.info("broken text: \\ud83d")
    os.write(1, b"straight to the descriptor\\n")
    return dict(rewards=[1])
"""


@pytest.mark.parametrize("mode", MODES)
def test_what_a_call_logs_and_prints_is_told_before_its_answer(grader, mode) -> None:
    slot = grader(PRINTS, mode)
    assert slot.call(body(extra={"a": 1}), 5, 2)["rewards"] == [1.0]
    assert {(line["call"], line["attempt"]) for line in slot.logs} == {(5, 2)}
    logged = [line for line in slot.logs if line["logger"] == "judge"]
    assert [line["level"] for line in logged] == ["info", "error", "warning", "info"]
    assert logged[0]["text"] == "grading {'a': 1}"
    assert "ValueError: shown" in logged[1]["text"]
    assert "bad %d" in logged[2]["text"]
    assert logged[3]["text"] == "broken text: \\ud83d"
    assert abs(logged[0]["time_ms"] / 1000 - __import__("time").time()) < 600
    out = slot.stdout.wait_for("straight to the descriptor")
    if mode == "process":
        assert "a print\nhalf a line, and its end\nand half a line without" in out
        slot.stderr.wait_for("an error print")
    else:
        printed = [line["text"] for line in slot.logs if line["logger"] == "stdout"]
        assert printed[:2] == ["a print", "half a line, and its end"]
        assert printed[2] == "and half a line without\\xff\\xfe not utf-8 \x00"
        assert [x["text"] for x in slot.logs if x["logger"] == "stderr"] == ["an error print"]


@pytest.mark.parametrize("mode", ["thread", "loop"])
def test_lines_belong_to_the_call_that_prints_them(grader, mode) -> None:
    wait = "await asyncio.sleep(0.01)" if mode == "loop" else "time.sleep(0.01)"
    slot = grader(
        f"for i in range(5):\n    print(context.step, i)\n    {wait}\nprint('end', end='')\n{OK}",
        mode,
    )
    for call in range(1, 6):
        slot.send(call, body(context={"step": call}))
    for _ in range(5):
        call, _, _ = slot.answer()
        mine = [line["text"] for line in slot.read_logs() if line["call"] == call]
        assert mine == [*(f"{call} {i}" for i in range(5)), "end"]


@pytest.mark.parametrize("mode", MODES)
def test_a_flood_is_cut_and_counted(grader, mode) -> None:
    slot = grader(
        f"""
        for i in range(30_000):
            logging.info("line %d %s", i, "x" * 100)
        logging.info("y" * 100_000)
        {OK}
        """,
        mode,
    )
    slot.send(1, body())
    while not any("lines of output cut" in line["text"] for line in slot.read_logs(0.05)):
        pass
    assert slot.answer()[2]["rewards"] == [1.0, 1.0]
    assert len(slot.logs) < 12_000
    assert "30001" in str(len(slot.logs) - 1 + int(slot.logs[-1]["text"].split()[0]))
    slot.send(2, body())
    while not any(line["call"] == 2 for line in slot.read_logs(0.05)):
        pass


def test_a_line_that_is_too_long_is_cut(grader) -> None:
    slot = grader(f"logging.info('y' * 100_000)\n{OK}")
    slot.call(body())
    assert "characters of the line cut" in slot.logs[0]["text"]
    assert len(slot.logs[0]["text"]) < 17_000


def test_a_runtime_that_does_not_read_logs_blocks_no_call(grader) -> None:
    slot = grader(f"for i in range(9000):\n    logging.info('%d %s', i, 'x' * 100)\n{OK}")
    slot.send(1, body())
    slot.send(2, body())
    assert slot.answer(60)[0] == 1  # nothing of the control socket was read


def test_output_of_a_plugin_s_own_children_goes_to_the_pipes(grader) -> None:
    slot = grader(
        f"""
        pid = os.fork()
        if pid == 0:
            logging.info("from the child")
            print("printed by the child", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
        {OK}
        """
    )
    assert slot.call(body())["rewards"] == [1.0, 1.0]
    slot.stderr.wait_for("from the child")
    slot.stdout.wait_for("printed by the child")
    assert slot.logs == []


def test_logging_that_the_plugin_sets_up_itself(serve) -> None:
    slot = serve(
        f"""
        logging.basicConfig(level=logging.DEBUG, force=True, format="own %(message)s")
        @group_grader
        def f(context, sample, trajectories):
            logging.getLogger("a").debug("told")
            {OK}
        """
    )
    slot.call(body())
    assert [(line["logger"], line["level"], line["text"]) for line in slot.logs] == [
        ("a", "debug", "told")
    ]


def test_stdout_that_is_replaced_is_put_back(grader) -> None:
    slot = grader(
        f"""
        import io
        if sample.extra:
            sys.stdout = io.StringIO()
        print("seen" if not sample.extra else "swallowed")
        {OK}
        """
    )
    slot.call(body(extra={"x": 1}))
    slot.call(body())
    assert "swallowed" not in slot.stdout.wait_for("seen")

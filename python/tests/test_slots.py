"""Slots: how calls run in each mode, what they leave behind, and how slots end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from driver import CALL, CANCEL, DRAIN, Closed, body, frame

OK = "return GroupGraderResult(rewards=[1.0] * len(trajectories))"
MODES = ["process", "thread", "loop"]


@pytest.mark.parametrize("mode", MODES)
def test_two_thousand_calls(grader, mode) -> None:
    slot = grader("return dict(rewards=[float(sample.extra['i'])])", mode)
    done, sent = {}, 0
    while len(done) < 2000:
        while sent < 2000 and sent - len(done) < 50:
            slot.send(sent, body(extra={"i": sent}), attempt=sent % 3 + 1)
            sent += 1
        call, attempt, answer = slot.answer()
        assert call not in done
        assert attempt == call % 3 + 1
        assert answer == {"status": "success", "rewards": [float(call)]}
        done[call] = answer
    assert slot.alive()


@pytest.mark.parametrize("mode", MODES)
def test_large_and_split_bodies(grader, mode) -> None:
    slot = grader("return dict(rewards=[len(sample.extra['x'])])", mode)
    for size in (10, 3_000_000, 100, 300_000):
        assert slot.call(body(extra={"x": "x" * size}))["rewards"] == [float(size)]
    raw = json.dumps(body(extra={"x": "abc"})).encode()
    for byte in frame(CALL, 5, 1, raw)[:40]:
        slot.data.sendall(bytes([byte]))
    slot.data.sendall(frame(CALL, 5, 1, raw)[40:] + frame(CALL, 6, 1, raw))
    assert {slot.answer()[0], slot.answer()[0]} == {5, 6}


@pytest.mark.parametrize("mode", MODES)
def test_a_broken_frame_ends_the_slot(grader, mode) -> None:
    slot = grader(OK, mode)
    slot.data.sendall(b"\xff" * 64)
    with pytest.raises(Closed):
        slot.answer()
    slot.wait_gone()


def test_a_process_slot_calls_on_its_main_thread_and_its_state_stays(serve) -> None:
    slot = serve(
        """
        seen = []
        @group_grader
        def f(context, sample, trajectories):
            assert threading.current_thread() is threading.main_thread()
            assert threading.active_count() == 1
            seen.append(context.attempt)
            return dict(rewards=[len(seen)])
        """
    )
    assert slot.call(body())["rewards"] == [1.0]
    assert slot.call(body())["rewards"] == [2.0]


def test_an_async_function_in_a_process_or_on_a_thread(serve) -> None:
    source = """
        @group_grader
        async def f(context, sample, trajectories):
            await asyncio.sleep(0)
            return dict(rewards=[3])
        """
    for mode in ("process", "thread"):
        slot = serve(source, mode)
        assert slot.call(body()) == {"status": "success", "rewards": [3.0]}


def test_threads_run_calls_at_once_up_to_the_capacity(serve) -> None:
    slot = serve(
        """
        barrier = threading.Barrier(4)
        running, most = 0, 0
        lock = threading.Lock()
        @group_grader
        def f(context, sample, trajectories):
            global running, most
            with lock:
                running += 1
                most = max(most, running)
            barrier.wait(20)
            with lock:
                running -= 1
            return dict(rewards=[most])
        """,
        "thread",
        4,
    )
    for call in range(12):
        slot.send(call, body())
    answers = [slot.answer()[2]["rewards"][0] for _ in range(12)]
    assert max(answers) == 4.0


def test_a_loop_runs_calls_at_once_and_shares_what_was_made_at_import(serve) -> None:
    slot = serve(
        """
        gate = asyncio.Semaphore(2)
        everyone = asyncio.Event()
        waiting = 0
        @group_grader
        async def f(context, sample, trajectories):
            global waiting
            waiting += 1
            if waiting == 32:
                everyone.set()
            await everyone.wait()
            async with gate:
                await asyncio.sleep(0)
            return dict(rewards=[1])
        """,
        "loop",
    )
    for call in range(32):
        slot.send(call, body())
    assert {slot.answer()[0] for _ in range(32)} == set(range(32))


RESIDUE = {
    "thread": ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "thread"),
    "child": (
        "__import__('subprocess').Popen(['sleep', '60'])",
        "child processes still run: sleep",
    ),
    "timer": ("signal.alarm(50)", "timer"),
    "handler": ("signal.signal(signal.SIGALRM, lambda *_: None)", "SIGALRM"),
    "cwd": ("os.chdir('/')", "working directory"),
    "environment": ("os.environ['LEFT_BEHIND'] = '1'", "LEFT_BEHIND"),
    "descriptor": ("os.open('/dev/zero', os.O_RDONLY)", "/dev/zero"),
    "descriptor above": (
        "a = os.open('/dev/zero', os.O_RDONLY); os.open('/dev/full', os.O_RDONLY); os.close(a)",
        "/dev/full",
    ),
    "stdout": ("os.close(1)", "closed"),
}


@pytest.mark.parametrize(("statement", "told"), RESIDUE.values(), ids=RESIDUE.keys())
def test_residue_is_told(grader, statement, told) -> None:
    slot = grader(f"if sample.extra.get('leave'):\n    {statement}\n{OK}")
    assert "residue" not in slot.call(body())
    answer = slot.call(body(extra={"leave": True}))
    assert answer["rewards"] == [1.0, 1.0]
    assert any(told in line for line in answer["residue"]), answer["residue"]


def test_a_grandchild_that_lost_its_parent_is_found(grader) -> None:
    slot = grader(f"os.system('sleep 60 >/dev/null 2>&1 &')\n{OK}")
    assert any("sleep" in line for line in slot.call(body())["residue"])


def test_what_is_only_ending_is_no_residue(grader) -> None:
    slot = grader(
        f"""
        import multiprocessing, subprocess
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(abs, [-1, 2]) == [1, 2]
        subprocess.run(["true"], check=True)
        subprocess.Popen(["true"])
        threading.Thread(target=time.sleep, args=(0.001,)).start()
        with open("scratch.txt", "w") as file:
            file.write("x")
        {OK}
        """
    )
    for _ in range(3):
        assert "residue" not in slot.call(body())


def test_the_shared_client_is_no_residue(grader) -> None:
    pytest.importorskip("openai")
    slot = grader(
        f"""
        from http.server import HTTPServer, BaseHTTPRequestHandler
        proxy = RolloutInferenceProxy(sample, url="http://127.0.0.1:1/v1", jwt_token="t")
        try:
            proxy.rollout_client().chat.completions.create(model="m", messages=[])
        except Exception as error:
            assert "onnection" in repr(error), repr(error)
        {OK}
        """
    )
    slot.call(body())  # the first call imports openai
    assert "residue" not in slot.call(body())


def test_a_slot_survives_a_plugin_that_closes_descriptors(grader) -> None:
    slot = grader(f"os.closerange(3, 256)\n{OK}")
    for call in range(3):
        assert slot.call(body(), call)["rewards"] == [1.0, 1.0]


@pytest.mark.parametrize("mode", MODES)
def test_a_child_that_comes_back_out_of_the_function_answers_nothing(grader, mode) -> None:
    slot = grader("os.fork()\nreturn dict(rewards=[1])", mode)
    assert slot.call(body())["rewards"] == [1.0]
    assert slot.call(body(), 2)["rewards"] == [1.0]


def test_a_timer_that_goes_off_late_harms_no_other_call(grader) -> None:
    slot = grader(
        f"""
        def late(*_): raise TimeoutError("late")
        signal.signal(signal.SIGALRM, late)
        signal.setitimer(signal.ITIMER_REAL, 0.0002)
        {OK}
        """
    )
    for call in range(50):
        answer = slot.call(body(), call)
        assert "raised" in answer or answer["rewards"] == [1.0, 1.0]


DRAW = """
    import random
    numpy = sys.modules.get("numpy")
    more = [float(numpy.random.random())] if numpy else []
    return dict(rewards=[random.random(), random.gauss(0, 1), *more])
"""


@pytest.mark.parametrize("mode", MODES)
def test_random_numbers_belong_to_the_call_not_to_the_attempt(grader, mode) -> None:
    draw = DRAW if mode != "loop" else DRAW.replace("import random", "import random\n    pass")
    slot = grader(draw, mode)

    def drawn(sample: str, trajectory: str, attempt: int) -> list[float]:
        context = {"sample_id": sample, "trajectory_id": trajectory, "attempt": attempt}
        return slot.call(body(context=context))["rewards"]

    first = drawn("s1", "t1", 1)
    assert drawn("s2", "t1", 1) != first
    assert drawn("s1", "t2", 1) != first
    assert drawn("s1", "t1", 2) == first


def test_cancelling_a_loop_s_call_is_answered_once_nothing_runs_any_more(serve) -> None:
    slot = serve(
        """
        async def stubborn():
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                print("stubborn waits", flush=True)
                await asyncio.sleep(0.2)
                print("stubborn is done", flush=True)

        @group_grader
        async def f(context, sample, trajectories):
            task = asyncio.create_task(stubborn())
            print("runs", flush=True)
            await asyncio.gather(task, asyncio.to_thread(time.sleep, 0.3))
        """,
        "loop",
    )
    slot.send(1, body())
    slot.send(2, body())
    while sum(line["text"] == "runs" for line in slot.read_logs(0.05)) < 2:
        pass
    slot.tell(CANCEL, 1)
    call, attempt, answer = slot.answer()
    assert (call, attempt) == (1, 1)
    assert answer["raised"]["type"].endswith("CancelledError")
    texts = [line["text"] for line in slot.read_logs() if line["call"] == 1]
    assert texts == ["runs", "stubborn waits", "stubborn is done"]
    slot.tell(CANCEL, 99)
    slot.tell(CANCEL, 2)
    assert slot.answer()[0] == 2


def test_a_call_that_cancels_every_task_cancels_its_own(serve) -> None:
    slot = serve(
        """
        go = asyncio.Event()

        @group_grader
        async def f(context, sample, trajectories):
            what = sample.extra["do"]
            if what == "cancel":
                for task in asyncio.all_tasks():
                    task.cancel()
            if what == "go":
                go.set()
            await asyncio.gather(go.wait(), asyncio.sleep(0))
            return GroupGraderResult(rewards=[1.0] * len(trajectories))
        """,
        "loop",
    )
    slot.send(1, body(extra={"do": "wait"}))
    slot.send(2, body(extra={"do": "wait"}))
    slot.send(3, body(extra={"do": "cancel"}))
    call, _, answer = slot.answer()
    assert call == 3
    assert "CancelledError" in answer["raised"]["type"]
    slot.send(4, body(extra={"do": "go"}))
    answers = dict(slot.answer()[::2] for _ in range(3))
    assert sorted(answers) == [1, 2, 4]
    assert all(answer["status"] == "success" for answer in answers.values()), answers


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_is_cancelled_before_it_begins_doesn_t(grader, mode) -> None:
    sleep = "await asyncio.sleep(0.5)" if mode == "loop" else "time.sleep(0.5)"
    slot = grader(f"print('runs', context.step)\n{sleep}\n{OK}", mode, capacity=1)
    if mode == "thread":
        slot.send(1, body())
        slot.send(2, body(context={"step": 2}))
        slot.tell(CANCEL, 2)
        assert slot.answer()[0] == 1
    else:
        slot.tell(CANCEL, 2)
        slot.tell(CANCEL, 3)
        slot.dump(9)  # frames of the control socket are served in order: now it knows
        slot.send(2, body(context={"step": 2}))
    call, _, answer = slot.answer()
    assert call == 2
    assert "cancelled before it began" in answer["raised"]["message"]
    slot.send(4, body(context={"step": 4}))
    assert slot.answer()[0] == 4


@pytest.mark.parametrize("mode", MODES)
def test_draining_finishes_what_came_and_exits(grader, mode) -> None:
    sleep = "await asyncio.sleep(0.1)" if mode == "loop" else "time.sleep(0.1)"
    slot = grader(f"{sleep}\n{OK}", mode)
    for call in range(3):
        slot.send(call, body())
    slot.tell(DRAIN)
    assert {slot.answer()[0] for _ in range(3)} == {0, 1, 2}
    slot.wait_gone()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("socket", ["data", "control"])
def test_a_slot_ends_when_the_runtime_is_gone(grader, mode, socket) -> None:
    sleep = "await asyncio.sleep(60)" if mode == "loop" else "time.sleep(60)"
    slot = grader(f"print('runs', flush=True)\n{sleep}", mode)
    slot.send(1, body())
    if mode == "process":
        slot.stdout.wait_for("runs")
    else:
        while not slot.read_logs(0.05):
            pass
    getattr(slot, socket).close()
    slot.wait_gone()


def test_idle_slots_end_too(grader) -> None:
    for mode in MODES:
        slot = grader(OK, mode)
        slot.close()
        slot.wait_gone()


def test_slots_outlive_their_forkserver(start) -> None:
    server = start(f"@group_grader\ndef f(context, sample, trajectories):\n    {OK}\n")
    server.load("plugin:f")
    slots = [server.slot(), server.slot("thread")]
    server.process.kill()
    server.process.wait()
    for slot in slots:
        assert slot.call(body())["rewards"] == [1.0, 1.0]
        assert os.getsid(slot.pid) == slot.pid


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSEGV"])
def test_a_death_is_seen_as_the_end_of_the_socket(grader, how) -> None:
    slot = grader(f"os.kill(os.getpid(), signal.{how})\n{OK}")
    slot.send(1, body())
    with pytest.raises(Closed):
        slot.answer()
    if how == "SIGSEGV":
        slot.stack.wait_for("plugin.py")


def test_a_child_keeps_no_socket_of_a_dead_slot(grader) -> None:
    slot = grader(f"if os.fork() == 0:\n    time.sleep(60)\nos.kill(os.getpid(), 9)\n{OK}")
    slot.send(1, body())
    with pytest.raises(Closed):
        slot.answer()
    listed = subprocess.run(["ps", "-eo", "pid,sid"], capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines()[1:]:
        pid, sid = map(int, line.split())
        if sid == slot.pid:
            os.kill(pid, signal.SIGKILL)


def test_the_import_is_paid_once(start) -> None:
    server = start(
        f"print('importing')\n@group_grader\ndef f(context, sample, trajectories):\n    {OK}\n"
    )
    loaded = server.load("plugin:f")
    assert loaded == {
        "op": "loaded",
        "kind": "group_grader",
        "is_async": False,
        "name": "f",
        "runtime": {},
    }
    for _ in range(5):
        server.slot().call(body())
    assert server.stdout.data.count(b"importing") == 1
    assert all(not slot.stdout.data for slot in server.slots)


def test_an_import_that_leaves_threads_gets_fresh_interpreters(start) -> None:
    server = start(
        f"""
        print('importing', flush=True)
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        @group_grader(runtime=Runtime(timeout=5, instance=PluginInstance.CPU1MEM4))
        def f(context, sample, trajectories):
            assert threading.active_count() == 2
            {OK}
        """
    )
    loaded = server.load("plugin:f")
    assert loaded["runtime"] == {"timeout": 5, "instance": "cpu1mem4"}
    slot = server.slot()
    assert slot.call(body()) == {"status": "success", "rewards": [1.0, 1.0]}
    assert b"importing" in slot.stdout.data


def test_numeric_libraries_begin_with_one_thread(start) -> None:
    source = """
        @group_grader
        def f(context, sample, trajectories):
            return dict(status="discard", error=os.environ["OMP_NUM_THREADS"])
        """
    for envs, expected in (({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")):
        server = start(source, **envs)
        server.load("plugin:f")
        assert server.slot().call(body())["error"] == expected


FAILURES = [
    ("import nothing_like_it", "plugin:f", "import", "nothing_like_it"),
    ("1 / 0", "plugin:f", "import", "ZeroDivisionError"),
    ("sys.exit(4)", "plugin:f", "import", "SystemExit"),
    ("def f(:", "plugin:f", "import", "SyntaxError"),
    ("Runtime(timeout=0)", "plugin:f", "import", "1 to 900"),
    ("x = 1", "plugn:f", "reference", 'did you mean "plugin"'),
    ("x = 1", "plugin:f", "reference", "no plugins"),
    ("@rollout\ndef g(context, proxy, sample): ...", "plugin:gg", "reference", 'mean "g"'),
    ("def f(context, sample, trajectories): ...", "plugin:f", "reference", "no decorator"),
    ("f = 3", "plugin:f", "reference", "not a function"),
    ("@group_grader\ndef f(ctx, sample, completions): ...", "plugin:f", "signature", "ctx"),
    ("x = 1", "plugin", "reference", "module:function"),
]


@pytest.mark.parametrize(("source", "function", "stage", "told"), FAILURES)
def test_what_can_t_be_loaded_says_why(start, source, function, stage, told) -> None:
    server = start(source)
    failed = server.load(function)
    assert failed["op"] == "failed"
    assert failed["stage"] == stage
    assert told in failed["message"]
    if stage == "import":
        assert "plugin.py" in failed["traceback"]
        assert "importlib" not in failed["traceback"]


def test_an_import_that_doesn_t_end_tells_its_stack(start) -> None:
    server = start("print('begins', flush=True)\nwhile True: pass\n")
    server.socket.sendall(
        _message({"op": "load", "project": str(server.project), "function": "plugin:f"})
    )
    server.stdout.wait_for("begins")
    server.process.send_signal(signal.SIGUSR2)
    server.stderr.wait_for("plugin.py")
    server.process.kill()


def _message(message: dict[str, str]) -> bytes:
    raw = json.dumps(message).encode()
    return len(raw).to_bytes(4, "little") + raw


def test_forks_are_quick_enough_to_be_made_by_the_hundred(start) -> None:
    server = start(f"@group_grader\ndef f(context, sample, trajectories):\n    {OK}\n")
    server.load("plugin:f")
    for _ in range(100):
        slot = server.slot()
        slot.close()
        server.slots.clear()
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.waitpid(-server.process.pid, os.WNOHANG)
        except ChildProcessError:
            break
    assert server.slot().call(body())["rewards"] == [1.0, 1.0]

"""What functions return and raise, as it comes over the wire."""

from __future__ import annotations

import json

import pytest
from driver import body

NAN, INF = {"$float": "nan"}, {"$float": "inf"}


def returns(grader, expression: str, **options):
    slot = grader(f"return {expression}", **options)
    return slot.call(body(n=2))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("GroupGraderResult(rewards=[1.0, 0])", {"status": "success", "rewards": [1.0, 0.0]}),
        ("dict(rewards=[True, False])", {"status": "success", "rewards": [1.0, 0.0]}),
        ("dict(rewards=[1], status='DISCARD')", {"status": "discard"}),
        ("GroupGraderResult([], 'retry', 'later')", {"status": "retry", "error": "later"}),
        ("dict(rewards=(1, 2), error=None)", {"status": "success", "rewards": [1.0, 2.0]}),
        ("dict(rewards=[math.nan, -math.inf])", {"rewards": [NAN, {"$float": "-inf"}]}),
        ("dict(rewards=[None])", {"rewards": [{"$value": "None", "type": "NoneType"}]}),
        (
            "dict(rewards=['0.5', [1]])",
            {"rewards": [{"$value": "'0.5'", "type": "str"}, {"$value": "[1]", "type": "list"}]},
        ),
        (
            "dict(rewards=[10**400, -10**400])",
            {
                "rewards": [
                    {"$value": "1" + "0" * 199 + "…", "type": "int"},
                    {"$value": "-1" + "0" * 198 + "…", "type": "int"},
                ]
            },
        ),
        ("dict(rewards=None)", {"status": "success", "rewards": []}),
        ("dict(rewards=[1j])", {"rewards": [{"$value": "1j", "type": "complex"}]}),
        ("dict(rewards=[1], metrics={'a': math.nan, 2: 3})", {"metrics": {"a": NAN, "2": 3.0}}),
        ("dict(rewards=[1], extra={'a': {1, }, 'b': math.nan})", {"extra": {"a": [1], "b": NAN}}),
        ("dict(status='discard', error='a\\ud83db')", {"error": "a\\ud83db"}),
        ("dict(status='discard', error='好\\U0001f600\\x00')", {"error": "好😀\x00"}),
    ],
)
def test_results(grader, expression, expected) -> None:
    answer = returns(grader, expression)
    assert {key: answer.get(key) for key in expected} == expected
    assert "bad_result" not in answer


def test_numbers_of_the_standard_library(grader) -> None:
    slot = grader(
        """
        from decimal import Decimal
        from fractions import Fraction
        return dict(rewards=[Decimal("0.25"), Fraction(1, 4), Decimal("nan"), Decimal("1e999")])
        """
    )
    assert slot.call(body())["rewards"] == [0.25, 0.25, NAN, INF]


def test_numbers_of_numpy(grader) -> None:
    pytest.importorskip("numpy")
    slot = grader(
        """
        import numpy as np
        if sample.extra["how"] == "array":
            return dict(rewards=np.array([0.5, np.nan]))
        return dict(
            rewards=[np.float32(0.5), np.float64(1), np.int64(2), np.bool_(True), np.array(3.0),
                     np.array([1.0])],
            metrics={"m": np.float16(0.5)}, extra={"a": np.arange(2), "f": np.float32(2)},
        )
        """
    )
    answer = slot.call(body(extra={"how": "scalars"}))
    assert answer["rewards"][:5] == [0.5, 1.0, 2.0, 1.0, 3.0]
    assert answer["rewards"][5]["type"] == "numpy.ndarray"
    assert answer["metrics"] == {"m": 0.5}
    assert answer["extra"] == {"a": [0, 1], "f": 2.0}
    assert slot.call(body(extra={"how": "array"}))["rewards"] == [0.5, NAN]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("None", "expected GroupGraderResult, got None"),
        ("'0.5'", "expected GroupGraderResult, got str '0.5'"),
        ("[1.0]", "got list"),
        ("{'score': 1}", "with the keys 'score'"),
        ("SingleGraderResult(reward=1)", "got SingleGraderResult"),
        ("RolloutResult()", "got RolloutResult"),
        ("GroupGraderResult", "got type"),
        ("dict(rewards=0.5)", "rewards is float 0.5, not a list"),
        ("dict(rewards=[1], status='ok')", "status is 'ok': allowed are success, failure"),
        ("dict(rewards=[1], extra=3)", "extra is int 3, not a dict"),
    ],
)
def test_what_is_no_result_is_told(grader, expression, told) -> None:
    answer = returns(grader, expression)
    assert told in answer["bad_result"]


def test_metrics_that_are_none_are_set_aside_with_a_line(grader) -> None:
    slot = grader("return dict(rewards=[1, 1], metrics=[3])")
    assert slot.call(body()) == {"status": "success", "rewards": [1.0, 1.0]}
    assert "metrics set aside" in slot.logs[0]["text"]
    assert slot.logs[0]["level"] == "warning"


def test_any_object_of_the_right_shape_is_a_result(serve) -> None:
    slot = serve(
        """
        class Own:
            status, rewards, error, metrics = PluginStatus.SUCCESS, [1], "", {}

        class Broken(Own):
            @property
            def rewards(self): raise KeyError("inside")

        @group_grader
        def f(context, sample, trajectories):
            return Broken() if sample.extra else Own()
        """
    )
    assert slot.call(body())["rewards"] == [1.0]
    assert slot.call(body(extra={"x": 1}))["raised"]["type"] == "KeyError"


def test_a_rollout_that_returns_nothing_succeeds(serve) -> None:
    slot = serve("@rollout\ndef f(context, proxy, sample):\n    return sample.extra.get('r')\n")
    assert slot.call(body("rollout")) == {"status": "success"}
    extra = {"r": {"extra": {"note": 1}}}
    assert slot.call(body("rollout", extra=extra)) == {"status": "success", "extra": {"note": 1}}
    assert "bad_result" in slot.call(body("rollout", extra={"r": "text"}))


def test_a_single_grader_answers_one_reward(serve) -> None:
    slot = serve(
        """
        @single_grader
        def f(context, sample, trajectory):
            return SingleGraderResult(reward=float(trajectory.messages[-1].content))
        """
    )
    assert slot.call(body("single"))["rewards"] == [2.0]
    assert slot.call(body("group", n=1))["rewards"] == [2.0]
    assert "one trajectory, not 2" in slot.call(body("group", n=2))["raised"]["message"]


def test_extra_that_is_not_finite_comes_back_to_the_graders(grader) -> None:
    slot = grader("return dict(rewards=[1, 1], extra={'nan': str(sample.extra['x'])})")
    assert slot.call(body(extra={"x": {"$float": "nan"}}))["extra"] == {"nan": "nan"}
    assert slot.call(body(extra={"x": "costs $5"}))["extra"] == {"nan": "costs $5"}


def test_a_request_with_a_lone_surrogate_is_read(grader) -> None:
    slot = grader("return dict(status='discard', error=repr(sample.extra['x']))")
    raw = json.dumps(body(extra={"x": "\ud83d"})).encode()
    assert slot.call(raw)["error"] == "'\\ud83d'"


def test_content_as_parts(serve) -> None:
    slot = serve(
        """
        @group_grader
        def f(context, sample, trajectories):
            assert sample.messages[0].content[0].text == "1+1=?"
            assert trajectories[0].messages[1]["content"] == [{"type": "text", "text": "2"}]
            return dict(rewards=[1, 1])
        """,
        fmt="parts",
    )
    assert slot.call(body())["rewards"] == [1.0, 1.0]


@pytest.mark.parametrize("mode", ["process", "thread", "loop"])
def test_an_exception_is_told_from_the_plugin_s_own_frames(serve, mode) -> None:
    word = "async def" if mode == "loop" else "def"
    slot = serve(
        f"""
        def inner(sample):
            try:
                return sample.extra["answer"]
            except KeyError as error:
                raise ValueError("no answer") from error

        @group_grader
        {word} f(context, sample, trajectories):
            return inner(sample)
        """,
        mode,
    )
    answer = slot.call(body())
    raised = answer["raised"]
    assert answer["status"] == "failure"
    assert (raised["type"], raised["message"]) == ("ValueError", "no answer")
    assert [(f["file"], f["line"], f["function"]) for f in raised["frames"]] == [
        ("plugin.py", 11, "f"),
        ("plugin.py", 7, "inner"),
    ]
    assert raised["frames"][1]["code"] == 'raise ValueError("no answer") from error'
    text = raised["traceback"]
    assert "KeyError: 'answer'" in text
    assert "direct cause" in text
    assert "plugin.py:11 in f" in text
    assert "_worker" not in text
    assert slot.call(body())["raised"]["type"] == "ValueError"


@pytest.mark.parametrize("mode", ["process", "thread", "loop"])
@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        ("sys.exit('bye')", "SystemExit", "bye"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise asyncio.CancelledError('own')", "asyncio.exceptions.CancelledError", "own"),
        ("raise ExceptionGroup('two', [ValueError(1), KeyError(2)])", "ExceptionGroup", "two"),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("raise MemoryError", "MemoryError", ""),
    ],
)
def test_whatever_is_raised_ends_the_call_alone(grader, mode, statement, kind, message) -> None:
    slot = grader(statement if mode != "loop" else f"await asyncio.sleep(0)\n{statement}", mode)
    for call in (1, 2):
        raised = slot.call(body(), call)["raised"]
        assert raised["type"] == kind
        assert message in raised["message"]
        assert kind.rpartition(".")[2] in raised["traceback"]
    assert slot.alive()


def test_exceptions_that_can_t_be_printed(serve) -> None:
    slot = serve(
        """
        class Unprintable(Exception):
            def __str__(self): raise RuntimeError("no")
            __repr__ = __str__

        class Strange(Exception):
            __module__ = None
            def __getattribute__(self, name): raise ValueError(name)

        @group_grader
        def f(context, sample, trajectories):
            if sample.extra["how"] == "deep":
                def again(): again()
                again()
            raise (Unprintable if sample.extra["how"] == "text" else Strange)()
        """
    )
    raised = slot.call(body(extra={"how": "text"}))["raised"]
    assert raised["type"] == "plugin.Unprintable"
    assert "Unprintable" in raised["traceback"]
    assert "Strange" in slot.call(body(extra={"how": "strange"}))["raised"]["type"]
    deep = slot.call(body(extra={"how": "deep"}))["raised"]
    assert deep["type"] == "RecursionError"
    assert len(deep["frames"]) <= 50


def test_an_answer_that_is_too_large_is_told(grader) -> None:
    slot = grader("return dict(rewards=[1, 1], extra={'x': 'x' * (70 << 20)})")
    assert "allowed are 64 MiB (frame_limit)" in slot.call(body())["bad_result"]
    assert "allowed are 64 MiB (frame_limit)" in slot.call(body())["bad_result"]


def test_a_long_error_is_cut(grader) -> None:
    slot = grader("return dict(status='failure', error='x' * 1_000_000)")
    error = slot.call(body())["error"]
    assert len(error) < 70_000
    assert "characters cut" in error

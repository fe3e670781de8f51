"""The SDK as plugin authors use it: decorators, data objects, results."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import paddock
from paddock import (
    ChatCompletionMessage,
    ChatCompletionSample,
    GroupGraderResult,
    PluginContext,
    PluginInstance,
    PluginStatus,
    RolloutResult,
    Runtime,
    SingleGraderResult,
    Trajectory,
    group_grader,
    rollout,
    single_grader,
)
from paddock.decorators import plugin_of

SDK = Path(paddock.__file__).resolve().parent.parent


def test_the_core_imports_with_the_standard_library_alone() -> None:
    script = (
        "import sys, paddock, paddock.check\n"
        "extra = {'msgspec', 'openai', 'httpx', 'httpx2', 'numpy'} & set(sys.modules)\n"
        "assert not extra, extra\n"
        "import threading; assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(SDK)})


@pytest.mark.parametrize("decorate", [rollout, single_grader, group_grader])
def test_decorators_take_every_form(decorate) -> None:
    runtime = Runtime(timeout=5)

    @decorate
    def bare(a, b, c):
        """Says so."""
        return a, b, c

    @decorate()
    def called(a, b, c):
        return a, b, c

    @decorate(name="other", description="words", runtime=runtime)
    async def given(a, b, c):
        return a, b, c

    assert [plugin_of(f).name for f in (bare, called, given)] == ["bare", "called", "other"]
    assert plugin_of(given).description == "words"
    assert plugin_of(given).runtime == runtime
    assert plugin_of(given).is_async
    assert not plugin_of(bare).is_async
    assert plugin_of(bare).kind == decorate.__name__
    assert bare(1, 2, 3) == (1, 2, 3)
    assert asyncio.run(given(1, 2, 3)) == (1, 2, 3)
    assert inspect.iscoroutinefunction(given)
    assert bare.__doc__ == "Says so."
    assert plugin_of(print) is None


def test_a_decorator_of_something_else_says_what_to_write() -> None:
    with pytest.raises(TypeError, match="decorates a function"):
        group_grader("name")


@group_grader
def pickled(context, sample, trajectories):
    return context, sample, trajectories


def test_a_decorated_function_can_be_pickled_and_called_with_plain_dicts() -> None:
    assert pickle.loads(pickle.dumps(pickled)) is pickled
    context, sample, trajectories = pickled({}, {"extra": {"a": 1}}, [{"messages": []}])
    assert context.phase is None
    assert context["phase"] is None
    assert sample.extra["a"] == 1
    assert isinstance(trajectories[0], Trajectory)
    assert pickled(context={}, sample={}, trajectories=[])[0].step is None


def test_a_decorator_around_ours_is_kept() -> None:
    import functools

    def twice(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) * 2

        return wrapper

    @twice
    @group_grader
    def outer(context, sample, trajectories):
        return [1]

    @group_grader
    @twice
    def inner(context, sample, trajectories):
        return [1]

    assert plugin_of(outer).function({}, {}, []) == [1, 1]
    assert plugin_of(outer).parameters() == ["context", "sample", "trajectories"]
    assert plugin_of(inner).function({}, {}, []) == [1, 1]
    assert plugin_of(inner).parameters() == ["context", "sample", "trajectories"]


ROW = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        },
    ],
    "extra": {"answer": 3},
    "unknown": {"kept": [1]},
}


def test_a_row_reads_as_mapping_and_as_attributes() -> None:
    sample = ChatCompletionSample(copy.deepcopy(ROW))
    assert sample.messages[0].content[0].text == "hi"
    assert sample["messages"][0]["content"][0]["text"] == "hi"
    assert sample.messages[1].tool_calls[0].function.name == "f"
    assert sample.messages[1].tool_calls[0]["function"]["arguments"] == "{}"
    assert sample.extra["answer"] == 3
    assert sample.unknown["kept"] == [1]
    assert sample.tools is None
    assert sample["temperature"] is None
    assert sample.messages[0].reasoning_content is None
    assert "tools" not in sample
    assert dict(sample) == ROW
    assert json.loads(json.dumps(sample)) == ROW
    with pytest.raises(AttributeError, match="has no field 'nope'"):
        _ = sample.nope
    with pytest.raises(KeyError):
        _ = sample["nope"]
    with pytest.raises(KeyError, match="answer"):
        _ = ChatCompletionSample().extra["answer"]
    assert ChatCompletionSample(messages=[]).messages == []
    assert pickle.loads(pickle.dumps(sample)) == sample
    assert type(copy.deepcopy(sample).messages[0]) is ChatCompletionMessage


def test_writing_a_field() -> None:
    sample = ChatCompletionSample()
    sample.extra["x"] = 1
    sample.model = "m"
    assert sample == {"extra": {"x": 1}, "model": "m"}
    del sample.model
    assert sample.model is None


def test_a_dump_has_every_field_of_a_sample_as_plain_data() -> None:
    dumped = ChatCompletionSample(copy.deepcopy(ROW)).model_dump()
    assert dumped.pop("messages") == ROW["messages"]
    assert (dumped.pop("tools") or []) == []
    assert type(ChatCompletionSample(ROW).model_dump()["messages"][0]) is dict
    assert ChatCompletionSample(ROW).model_dump(exclude_unset=True) == ROW
    assert "tools" not in ChatCompletionSample(ROW).model_dump(exclude_none=True)
    assert ChatCompletionMessage(role="user").model_dump() == {"role": "user", "content": None}
    assert json.loads(ChatCompletionSample(ROW).model_dump_json())["unknown"] == {"kept": [1]}
    assert ChatCompletionSample(ROW).model_dump(include=["extra"]) == {"extra": {"answer": 3}}


def test_a_trajectory_has_its_defaults() -> None:
    trajectory = Trajectory(usage={"total_tokens": 3})
    assert trajectory.messages == []
    assert trajectory.extra == {}
    assert trajectory.finish_reason is None
    assert trajectory.usage.total_tokens == 3
    assert trajectory.usage.prompt_tokens == 0
    assert Trajectory(extra=None).extra == {}


def test_the_job_id_has_both_spellings() -> None:
    for spelling in ("model_customization_job_id", "modle_customization_job_id"):
        context = PluginContext({spelling: "job_1"})
        assert context.model_customization_job_id == "job_1"
        assert context["modle_customization_job_id"] == "job_1"
        assert context.get("model_customization_job_id") == "job_1"
    assert PluginContext().model_customization_job_id is None


def test_results_are_not_validated_where_they_are_built() -> None:
    assert GroupGraderResult(rewards="no", status="odd").rewards == "no"
    assert GroupGraderResult([1.0]).status is PluginStatus.SUCCESS
    assert SingleGraderResult(reward=None).metrics == {}
    assert RolloutResult().model_dump() == {"status": "success", "error": "", "extra": {}}
    assert PluginStatus.RETRY == "retry"
    assert str(PluginStatus.RETRY) == "retry"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout", 0),
        ("timeout", 901),
        ("timeout", 1.5),
        ("timeout", True),
        ("max_concurrency", 101),
        ("min_replicas", -1),
        ("max_replicas", 0),
        ("queue_timeout", 0),
        ("concurrency", "fiber"),
        ("instance", "cpu3mem6"),
    ],
)
def test_a_runtime_out_of_range_names_field_value_and_range(field, value) -> None:
    with pytest.raises(ValueError, match=f'runtime.{field} is "{value}": .'):
        Runtime(**{field: value})


def test_a_runtime_tells_what_is_set() -> None:
    runtime = Runtime(instance=PluginInstance.CPU2MEM16, timeout=7, concurrency="thread")
    assert runtime.model_dump() == {
        "instance": "cpu2mem16",
        "timeout": 7,
        "concurrency": "thread",
    }
    assert Runtime(instance="CPU1MEM2").model_dump() == {"instance": "cpu1mem2"}
    with pytest.raises(ValueError, match="min_replicas"):
        Runtime(min_replicas=3, max_replicas=2)
    with pytest.raises(TypeError):
        Runtime(timeuot=3)


def test_requirements_are_the_same_in_both_places() -> None:
    import tomllib

    project = tomllib.loads((SDK / "pyproject.toml").read_text(encoding="utf-8"))
    listed = (SDK / "requirements-base.txt").read_text(encoding="utf-8").split()
    assert project["project"]["optional-dependencies"]["base"] == listed

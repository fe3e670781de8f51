"""The static check: what it finds, what it leaves to the import, and how it is run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import paddock
from paddock.check import check

SDK = Path(paddock.__file__).resolve().parent.parent

GOOD = {
    "bare": "from paddock import group_grader\n@group_grader\n",
    "called": "from paddock import group_grader\n@group_grader()\n",
    "attribute": "import paddock\n@paddock.group_grader\n",
    "alias": "from paddock import group_grader as gg\n@gg(name='x')\n",
    "module alias": "import paddock as p\n@p.group_grader\n",
    "ark": "from ark_sdk.resources.pipeline_plugin import group_grader\n@group_grader\n",
    "ark module": "import ark_sdk.resources.pipeline_plugin as pp\n@pp.group_grader()\n",
    "ark longer": "from ark_sdk.resources import pipeline_plugin\n@pipeline_plugin.group_grader\n",
    "star": "from paddock import *\n@group_grader\n",
    "among others": "import functools, paddock\n@functools.cache\n@paddock.group_grader\n",
    "in a branch": "if True:\n    from paddock import group_grader\n@group_grader\n",
}


def problems(tmp_path: Path, source: str, name: str = "f", kinds: str = "group_grader"):
    (tmp_path / "m.py").write_text(source, encoding="utf-8")
    return check(str(tmp_path), [("a.b", f"m:{name}", tuple(kinds.split(",")))])


@pytest.mark.parametrize("head", GOOD.values(), ids=GOOD.keys())
@pytest.mark.parametrize("word", ["def", "async def"])
def test_decorators_are_known_in_every_spelling(tmp_path, head, word) -> None:
    source = f"{head}{word} f(context, sample, trajectories):\n    pass\n"
    assert problems(tmp_path, source) == []


HEAD = "from paddock import *\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("@group_grader\ndef f(ctx, sample, completions): ...", ["ctx", "trajectories", "missing"]),
        ("@group_grader\ndef f(sample, context, trajectories): ...", ["order"]),
        ("@group_grader\ndef f(context, sample, trajectories, debug=False): ...", ["debug"]),
        ("@group_grader\ndef f(context, sample, *args, **kw): ...", ["*args", "**kw"]),
        ("@rollout\ndef f(context, proxy, sample): ...", ["is a rollout", "takes a group_grader"]),
        ("def f(context, sample, trajectories): ...", ["no decorator"]),
        ("import functools\n@functools.cache\ndef f(context): ...", ["no decorator"]),
        ("@group_graderr\ndef f(context, sample, trajectories): ...", ['mean "group_grader"']),
        ("class f: ...", ["a class"]),
        ("f = 3", ["a value"]),
        ("@group_grader\ndef g(context, sample, trajectories): ...", ['no function "f"', "are g"]),
        ("def f(:", ["can't read"]),
        ("def f(context, sample, trajectories): ...\nf = group_grader(f)", []),
        ("def g(context, sample): ...\nf = group_grader(runtime=None)(g)", ["missing"]),
        ("from somewhere import f", []),
        ("f = make_one()", []),
    ],
)
def test_problems_name_what_is_wrong(tmp_path, source, words) -> None:
    found = problems(tmp_path, HEAD + source + "\n")
    assert bool(found) == bool(words), found
    told = " ".join(f"{p.message}; {p.advice}" for p in found)
    for word in words:
        assert word in told
    assert all(p.file == "m.py" and p.field == "a.b" and p.advice for p in found)


def test_the_line_is_the_function_s(tmp_path) -> None:
    (found,) = problems(tmp_path, HEAD + "\n@group_grader\ndef f(context):\n    pass\n")
    assert found.line == 4


@pytest.mark.parametrize(
    ("runtime", "words"),
    [
        ("Runtime(timeout=901)", 'runtime.timeout is "901": allowed is 1 to 900'),
        ("Runtime(timeout=-1)", "-1"),
        ("Runtime(timeout='9')", "whole number"),
        ("Runtime(max_concurency=2)", 'did you mean "max_concurrency"?'),
        ("Runtime(instance=PluginInstance.CPU3MEM6)", "CPU3MEM6"),
        ("Runtime(instance=PluginInstance.CPU16MEM128, timeout=900)", ""),
        ("Runtime(timeout=1000 * 60)", ""),
        ("Runtime(min_replicas=11)", "at most max_replicas, 10"),
        ("Runtime(min_replicas=11, max_replicas=11)", ""),
        ("R", "0"),
    ],
)
def test_what_a_runtime_spells_out_is_checked(tmp_path, runtime, words) -> None:
    source = f"{HEAD}R = Runtime(timeout=0)\n@group_grader(runtime={runtime})\n"
    found = problems(tmp_path, source + "def f(context, sample, trajectories): ...\n")
    assert bool(found) == bool(words), found
    assert not words or words in found[0].message


def test_imports_inside_the_project_are_followed(tmp_path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from .impl import f, g\n", encoding="utf-8")
    (package / "deco.py").write_text("from paddock import group_grader as gg\n", encoding="utf-8")
    (package / "impl.py").write_text(
        "from .deco import gg\nfrom . import deco\n"
        "@gg\ndef f(context, sample, trajectories): ...\n"
        "@deco.gg\ndef g(context): ...\n",
        encoding="utf-8",
    )
    kinds = ("group_grader",)
    assert check(str(tmp_path), [("x", "pkg:f", kinds)]) == []
    (found,) = check(str(tmp_path), [("x", "pkg:g", kinds)])
    assert found.file == "pkg/impl.py"
    (found,) = check(str(tmp_path), [("x", "pkg.impll:f", kinds)])
    assert 'did you mean "pkg.impl"?' in found.message


@pytest.mark.parametrize("reference", ["m", "m:", ":f", "m.py:f g", "m:f:g", "../m:f"])
def test_a_broken_reference_is_a_problem(tmp_path, reference) -> None:
    (found,) = check(str(tmp_path), [("x", reference, ("rollout",))])
    assert "module.path:function" in found.advice or "no module" in found.message


def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "paddock.check", *args],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(SDK)},
    )


def test_the_command_imports_nothing_and_tells_json(tmp_path) -> None:
    (tmp_path / "m.py").write_text("raise SystemExit('imported')\ndef f(): ...\n", encoding="utf-8")
    ran = run("--project", str(tmp_path), "--json", "a[0].b=m:f:rollout,group_grader")
    assert ran.returncode == 1
    (found,) = json.loads(ran.stdout)
    assert set(found) == {"field", "file", "line", "message", "advice"}
    assert (found["field"], found["file"], found["line"]) == ("a[0].b", "m.py", 2)
    assert run("--project", str(tmp_path), "a=m:f").returncode == 2
    asked = {"project": str(tmp_path), "functions": []}
    assert json.loads(run(stdin=json.dumps(asked)).stdout) == {"problems": []}
    asked["functions"] = [{"field": "a", "function": "m:f", "kinds": ["rollout"]}]
    assert len(json.loads(run(stdin=json.dumps(asked)).stdout)["problems"]) == 1

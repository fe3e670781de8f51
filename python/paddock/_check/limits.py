"""What a decorator's `Runtime(...)` spells out, held against the ranges."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable
from typing import Any

from ..runtime import FIELDS, PluginInstance, problem, replicas_problem
from .source import Module, Project

Told = tuple[int, str, str]
"""A line, what is wrong there, and what to do."""

_UNKNOWN = object()


def runtime_problems(project: Project, module: Module, decorator: ast.expr) -> Iterable[Told]:
    """The problems of the `runtime=` of a decorator, as far as the sources tell."""
    if not isinstance(decorator, ast.Call):
        return
    for keyword in decorator.keywords:
        if keyword.arg not in (None, "name", "description", "runtime"):
            names = ("name", "description", "runtime")
            told = f'the decorator takes no "{keyword.arg}"{_nearest(keyword.arg, names)}'
            yield keyword.value.lineno, told, f"it takes {', '.join(names)}"
        if keyword.arg == "runtime":
            call = _runtime_call(project, module, keyword.value)
            if call is not None:
                yield from _check_call(module, call)


def _nearest(name: str | None, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name or "", list(names), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _runtime_call(project: Project, module: Module, node: Any) -> ast.Call | None:
    """`Runtime(...)`, written in place or bound to a name of the same module."""
    if isinstance(node, ast.Name):
        node = module.definitions.get(node.id)
    if not isinstance(node, ast.Call):
        return None
    name = module.full_name(node.func)
    ours = name.split(".")[0] in ("paddock", "ark_sdk") and name.endswith(".Runtime")
    return node if ours else None


def _check_call(module: Module, call: ast.Call) -> Iterable[Told]:
    if call.args:
        yield (
            call.lineno,
            "Runtime(...) takes its fields by name",
            f"name them: {', '.join(FIELDS)}",
        )
    replicas: dict[str, Any] = {"min_replicas": None, "max_replicas": None}
    for keyword in call.keywords:
        field, node = keyword.arg, keyword.value
        if field is None:
            continue
        if field not in FIELDS:
            told = f'Runtime(...) has no "{field}"{_nearest(field, FIELDS)}'
            yield node.lineno, told, f"its fields are {', '.join(FIELDS)}"
            continue
        value = _value(module, node)
        wrong = None if value in (None, _UNKNOWN) else problem(field, value)
        if wrong:
            yield node.lineno, wrong, f"set runtime.{field} within its range"
        elif field in replicas:
            replicas[field] = value
    if _UNKNOWN not in replicas.values():
        wrong = replicas_problem(replicas["min_replicas"], replicas["max_replicas"])
        if wrong:
            yield call.lineno, wrong, "lower min_replicas or raise max_replicas"


def _value(module: Module, node: ast.expr) -> Any:
    """What a literal says; `_UNKNOWN` for anything that must be computed."""
    if isinstance(node, ast.Attribute) and module.full_name(node.value).endswith("PluginInstance"):
        known = getattr(PluginInstance, node.attr, None)
        return known.value if isinstance(known, PluginInstance) else node.attr
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _UNKNOWN

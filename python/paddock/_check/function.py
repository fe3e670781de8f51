"""One function of a project, held against the contract."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from typing import (
    NamedTuple,
    Union,
)

from ..decorators import PARAMETERS
from .limits import runtime_problems
from .source import Definition, Module, Project, Unreadable

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

KINDS = {
    "rollout": "rollout",
    "single_rollout": "rollout",
    "single_grader": "single_grader",
    "group_grader": "group_grader",
}
"""Decorators, and the kinds that they make."""

_HOUSES = ("paddock", "ark_sdk")
"""Packages that have the decorators, at whatever path inside them."""
_HOPS = 8
"""Imports that are followed from module to module."""


class Problem(NamedTuple):
    """What is wrong with the function that a field names."""

    field: str
    file: str | None
    line: int | None
    message: str
    advice: str


class Found(NamedTuple):
    """Where a name's definition stands, and what it is."""

    module: Module
    name: str
    definition: Definition


def nearest(name: str, names: Iterable[str]) -> str:
    """`; did you mean "grader"?`, or nothing."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def kind_of(full_name: str) -> str | None:
    """The kind that a decorator of this full name makes."""
    parts = full_name.split(".")
    return KINDS.get(parts[-1]) if len(parts) > 1 and parts[0] in _HOUSES else None


def find(project: Project, module: Module, name: str, hops: int = _HOPS) -> Found | None:
    """What a name of a module is, through imports inside the project. `None`: it isn't there.

    A definition of `None` means that it is there, or may be, but the sources don't tell what it is.
    """
    if name in module.definitions:
        definition = module.definitions[name]
        if isinstance(definition, ast.Name) and hops and definition.id != name:
            return find(project, module, definition.id, hops - 1) or Found(module, name, None)
        return Found(module, name, definition)
    if name in module.imports and hops:
        source, _, original = module.imports[name].rpartition(".")
        other = project.module(source) if source else None
        if other is None:
            return Found(module, name, None)
        return find(project, other, original, hops - 1) or Found(module, name, None)
    for star in module.stars if hops else ():
        if star.split(".")[0] in _HOUSES:
            continue
        other = project.module(star)
        if other is None:
            return Found(module, name, None)
        found = find(project, other, name, hops - 1)
        if found is not None:
            return found
    if "__getattr__" in module.definitions:
        return Found(module, name, None)
    return None


def check_function(
    project: Project, field: str, reference: str, kinds: Sequence[str]
) -> list[Problem]:
    """The problems of the function that a field names."""
    module_name, colon, name = reference.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), name]):
        told = f'"{reference}" is not a reference to a function'
        return [Problem(field, None, None, told, 'write "module.path:function"')]
    try:
        module = project.module(module_name)
        if module is None:
            return [_no_module(project, field, module_name)]
        found = find(project, module, name)
        if found is None:
            return [_no_function(project, field, module, name)]
        return list(_check_found(project, field, found, kinds))
    except Unreadable as error:
        told = f"python can't read it: {error.message}"
        return [Problem(field, error.file, error.line, told, "correct the file's syntax")]


def _no_module(project: Project, field: str, name: str) -> Problem:
    names = project.names()
    there = f"the project's modules are {', '.join(names[:20])}" if names else "it has no modules"
    told = f'the project has no module "{name}"{nearest(name, names)}'
    return Problem(field, None, None, told, f"name a module from the project's folder; {there}")


def _no_function(project: Project, field: str, module: Module, name: str) -> Problem:
    plugins = _plugins(project, module)
    told = f'"{module.file}" has no function "{name}"' + (
        nearest(name, plugins) or nearest(name, module.definitions)
    )
    there = f"its plugins are {', '.join(plugins)}" if plugins else "it has no plugins"
    return Problem(field, module.file, None, told, f"name a function of the module; {there}")


def _plugins(project: Project, module: Module) -> list[str]:
    return sorted(
        name
        for name, definition in module.definitions.items()
        if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any(_decorator_kind(project, module, d)[0] for d in definition.decorator_list)
    )


def _check_found(
    project: Project, field: str, found: Found, kinds: Sequence[str]
) -> Iterable[Problem]:
    definition, module = found.definition, found.module
    if isinstance(definition, ast.Call):
        called = _decorated_by_call(project, module, definition)
        if called is not None:
            function, call, kind = called
            yield from _check_plugin(project, field, module, function, call, kind, kinds)
        return
    if isinstance(definition, (ast.ClassDef, ast.Constant)):
        what = "a class" if isinstance(definition, ast.ClassDef) else "a value"
        told = f'"{found.name}" is {what}, not a function'
        yield Problem(field, module.file, definition.lineno, told, "name a decorated function")
        return
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return  # the sources don't tell; the import will
    unknown = False
    for decorator in definition.decorator_list:
        made, understood = _decorator_kind(project, module, decorator)
        if made is not None:
            yield from _check_plugin(project, field, module, definition, decorator, made, kinds)
            return
        unknown = unknown or not understood
    if not unknown:
        yield _no_decorator(field, module, definition, kinds)


def _no_decorator(field: str, module: Module, function: Function, kinds: Sequence[str]) -> Problem:
    given = [_last_name(d) for d in function.decorator_list]
    near = next((n for n in (nearest(g, KINDS) for g in given) if n), "")
    told = f'"{function.name}" has no decorator of Paddock{near}'
    wanted = " or ".join("@" + kind for kind in kinds)
    return Problem(field, module.file, function.lineno, told, f"put {wanted} above it")


def _last_name(decorator: ast.expr) -> str:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _decorator_kind(
    project: Project, module: Module, decorator: ast.expr
) -> tuple[str | None, bool]:
    """The kind that a decorator makes, and whether it is understood at all."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = module.full_name(node)
    kind = kind_of(name)
    if kind is not None:
        return kind, True
    for _ in range(_HOPS):  # re-exported, or wrapped, by a module of the project
        source, _, original = name.rpartition(".")
        other = project.module(source) if source else None
        if other is None:
            break
        if original in other.imports:
            name = other.imports[original]
        elif len(other.stars) == 1 and original not in other.definitions:
            name = f"{other.stars[0]}.{original}"
        else:
            return None, False  # made in the project: it may apply one of ours
        if kind_of(name) is not None:
            return kind_of(name), True
    return None, bool(name)


def _decorated_by_call(
    project: Project, module: Module, call: ast.Call
) -> tuple[Function, ast.expr, str] | None:
    """`name = group_grader(function)` and `name = group_grader(runtime=...)(function)`."""
    kind, _ = _decorator_kind(project, module, call.func)
    if kind is None or len(call.args) != 1 or not isinstance(call.args[0], ast.Name):
        return None
    found = find(project, module, call.args[0].id)
    if found is None or not isinstance(found.definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    return found.definition, call.func, kind


def _check_plugin(
    project: Project,
    field: str,
    module: Module,
    function: Function,
    decorator: ast.expr,
    kind: str,
    kinds: Sequence[str],
) -> Iterable[Problem]:
    if kind not in kinds:
        told = f'"{function.name}" is a {kind}: this field takes a {" or a ".join(kinds)}'
        advice = "name another function, or decorate it with " + " or ".join("@" + k for k in kinds)
        yield Problem(field, module.file, function.lineno, told, advice)
    got, wanted = _parameters(function.args), list(PARAMETERS[kind])
    if got != wanted:
        told = (
            f'"{function.name}" takes ({", ".join(got)}): a {kind} takes ({", ".join(wanted)})'
            + _difference(got, wanted)
        )
        advice = f"write def {function.name}({', '.join(wanted)}): names and order are the contract"
        yield Problem(field, module.file, function.lineno, told, advice)
    for line, message, advice in runtime_problems(project, module, decorator):
        yield Problem(field, module.file, line, message, advice)


def _parameters(arguments: ast.arguments) -> list[str]:
    names = [a.arg for a in [*arguments.posonlyargs, *arguments.args]]
    if arguments.vararg:
        names.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        names.append("*")
    names.extend(a.arg for a in arguments.kwonlyargs)
    if arguments.kwarg:
        names.append("**" + arguments.kwarg.arg)
    return names


def _difference(got: list[str], wanted: list[str]) -> str:
    extra = [name for name in got if name not in wanted]
    missing = [name for name in wanted if name not in got]
    if not extra and not missing:
        return "; the order differs"
    parts = []
    if missing:
        parts.append(f"missing: {', '.join(missing)}")
    if extra:
        parts.append(f"not known: {', '.join(extra)}")
    return "; " + "; ".join(parts)

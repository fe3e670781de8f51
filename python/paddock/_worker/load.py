"""Imports the plugin, once, in the forkserver.

Nothing here may keep anything running: what is imported is what every slot begins with.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..decorators import PARAMETERS, PluginFunction, plugin_of
from . import paths
from .raised import cut, safe_str, traceback_text, type_name


@dataclass
class Loaded:
    """A plugin that can be called."""

    reference: str
    kind: str
    name: str
    is_async: bool
    runtime: dict[str, Any]
    function: Callable[..., Any]


class NotLoaded(Exception):
    """Why a plugin can't be called: at which stage, and the traceback if there is one."""

    def __init__(self, stage: str, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.traceback = traceback


def one_thread_each() -> None:
    """Keeps numeric libraries from starting threads at their import.

    The job's own `envs` go before.
    """
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def load(project: str, reference: str) -> Loaded:
    """Imports `module:function` from a project's folder."""
    module_name, _, function_name = reference.partition(":")
    if not module_name or not function_name:
        raise NotLoaded("reference", f'"{reference}" is no reference: write "module:function"')
    project = os.path.abspath(project)
    paths.set_project(project)
    if project not in sys.path:
        sys.path.insert(0, project)
    importlib.invalidate_caches()
    return _found(_import(project, module_name), module_name, function_name)


def other(loaded: Loaded, name: str) -> Loaded:
    """Another function of the same module, for a request that names it (`paddock call --then`)."""
    module_name = loaded.reference.partition(":")[0]
    found = _found(sys.modules[module_name], module_name, name)
    if (found.kind == "rollout") != (loaded.kind == "rollout"):
        told = f'"{found.reference}" is a {found.kind}: instances of a {loaded.kind} can\'t call it'
        raise NotLoaded("reference", told)
    return found


def _found(module: Any, module_name: str, function_name: str) -> Loaded:
    """A plugin function of an imported module."""
    reference = f"{module_name}:{function_name}"
    found: Any = module
    for part in function_name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotLoaded("reference", _no_function(module, function_name)) from None
    plugin = plugin_of(found)
    if plugin is None:
        raise NotLoaded("reference", _no_decorator(found, reference))
    _check_signature(plugin, reference)
    return Loaded(
        reference=reference,
        kind=plugin.kind,
        name=plugin.name,
        is_async=plugin.is_async,
        runtime=plugin.runtime.model_dump(),
        function=plugin.function,
    )


def _import(project: str, name: str) -> Any:
    known = sys.modules.get(name)
    file = getattr(known, "__file__", None) or ""
    if name.partition(".")[0] in sys.stdlib_module_names and not file.startswith(project + os.sep):
        top = name.partition(".")[0]
        if os.path.exists(os.path.join(project, top + ".py")) or known is not None:
            told = (
                f'the module "{name}" has the name of one of Python\'s own: give its file another'
            )
            raise NotLoaded("reference", told)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise NotLoaded("reference", _no_module(project, name, missing)) from None
        raise _failed(error) from None
    except BaseException as error:
        raise _failed(error) from None


def _failed(error: BaseException) -> NotLoaded:
    message = f"{type_name(type(error))}: {cut(safe_str(error), 2000)}"
    return NotLoaded("import", message, traceback_text(error))


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f', did you mean "{close[0]}"?' if close else ""


def _no_module(project: str, name: str, missing: str) -> str:
    names: list[str] = []
    for folder, folders, files in os.walk(project):
        folders[:] = [f for f in folders if not f.startswith((".", "__"))][:50]
        inside = os.path.relpath(folder, project).replace(os.sep, ".")
        prefix = "" if inside == "." else inside + "."
        names.extend(prefix + f[:-3] for f in files if f.endswith(".py"))
        if len(names) > 2000:
            break
    return f'the project has no module "{missing}"{_nearest(name, names)}'


def _no_function(module: Any, name: str) -> str:
    plugins = sorted(n for n, v in vars(module).items() if plugin_of(v) is not None)
    there = f"its plugins are {', '.join(plugins)}" if plugins else "it has no plugins"
    near = _nearest(name, plugins) or _nearest(name, list(vars(module)))
    return f'the module "{module.__name__}" has no "{name}"{near or ";"} {there}'


def _no_decorator(found: Any, reference: str) -> str:
    if not callable(found):
        return f'"{reference}" is {type(found).__name__}, not a function'
    return f'"{reference}" has no decorator: put @{" or @".join(PARAMETERS)} above it'


def _check_signature(plugin: PluginFunction, reference: str) -> None:
    wanted = list(PARAMETERS[plugin.kind])
    try:
        got = plugin.parameters()
    except (TypeError, ValueError):
        return  # written in C: it tells nothing of its parameters
    if got != wanted:
        raise NotLoaded(
            "signature",
            f'"{reference}" takes ({", ".join(got)}): '
            f"a {plugin.kind} takes ({', '.join(wanted)}), by these names and in this order",
        )

"""A project's sources, parsed, and what names in them stand for."""

from __future__ import annotations

import ast
import os
import tokenize
from collections.abc import Iterator
from typing import Union

Definition = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr, None]
"""What a name is bound to. `None`: something that the sources don't tell."""

_SKIPPED = {"__pycache__", "node_modules", "venv", "env", "site-packages"}
_FOLDERS_LIMIT = 2000


class Unreadable(Exception):
    """A module's file can't be parsed: at which line, and why."""

    def __init__(self, file: str, line: int | None, message: str) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.message = message


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` of a chain of names; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run at an import, those inside `if`, `try` and `with` too."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for part in ("body", "orelse", "finalbody"):
                yield from statements(getattr(statement, part, []))
            for handler in getattr(statement, "handlers", []):
                yield from statements(handler.body)


class Module:
    """One parsed module: what its names are bound to, and what its imports are called."""

    def __init__(self, name: str, file: str, tree: ast.Module, is_package: bool) -> None:
        self.name = name
        self.file = file
        self.definitions: dict[str, Definition] = {}
        self.imports: dict[str, str] = {}
        """Full names of what is imported, by the names it has here."""
        self.stars: list[str] = []
        """Modules of which everything is imported."""
        self._package = name if is_package else name.rpartition(".")[0]
        for statement in statements(tree.body):
            self._take(statement)

    def _take(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._bind(statement.name, statement)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name if alias.asname else alias.name.partition(".")[0]
                self.imports[alias.asname or top] = top
        elif isinstance(statement, ast.ImportFrom):
            self._take_from(statement)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        simple = name is target
                        self._bind(name.id, statement.value if simple else None)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            if isinstance(statement.target, ast.Name):
                self._bind(statement.target.id, statement.value)

    def _bind(self, name: str, value: Definition) -> None:
        self.imports.pop(name, None)
        self.definitions[name] = value

    def _take_from(self, statement: ast.ImportFrom) -> None:
        base = statement.module or ""
        if statement.level:
            package = self._package.split(".") if self._package else []
            kept = package[: len(package) - statement.level + 1]
            base = ".".join([*kept, *([base] if base else [])])
        for alias in statement.names:
            if alias.name == "*":
                self.stars.append(base)
            else:
                here = alias.asname or alias.name
                self.definitions.pop(here, None)
                self.imports[here] = f"{base}.{alias.name}" if base else alias.name

    def full_name(self, node: ast.AST | None) -> str:
        """The full name of what an expression names: `paddock.rollout`.

        Empty if it names nothing.
        """
        name = dotted(node)
        head, _, tail = name.partition(".")
        if head in self.imports:
            head = self.imports[head]
        elif head and head not in self.definitions and len(self.stars) == 1:
            head = f"{self.stars[0]}.{head}"
        elif head in self.definitions:
            head = f"{self.name}.{head}"
        return f"{head}.{tail}" if tail else head


class Project:
    """The modules of a folder, parsed when they are asked for."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.abspath(folder)
        self._modules: dict[str, Module | None] = {}

    def file_of(self, name: str) -> str | None:
        """A module's file, from the project's folder; `None` if the project has none."""
        path = name.replace(".", os.sep)
        for file in (os.path.join(path, "__init__.py"), path + ".py"):
            if name and os.path.isfile(os.path.join(self.folder, file)):
                return file
        return None

    def module(self, name: str) -> Module | None:
        """A module of the project; `None` if it has none of this name."""
        if name not in self._modules:
            file = self.file_of(name)
            self._modules[name] = None if file is None else self._parse(name, file)
        return self._modules[name]

    def _parse(self, name: str, file: str) -> Module:
        path = os.path.join(self.folder, file)
        try:
            with tokenize.open(path) as source:  # the encoding that the file declares
                tree = ast.parse(source.read(), filename=file)
        except SyntaxError as error:
            raise Unreadable(file, error.lineno, error.msg) from error
        except (ValueError, RecursionError, OSError) as error:
            raise Unreadable(file, None, str(error)) from error
        return Module(name, file, tree, file.endswith("__init__.py"))

    def names(self) -> list[str]:
        """The names of the project's modules."""
        found: list[str] = []
        for count, (folder, folders, files) in enumerate(os.walk(self.folder)):
            if count > _FOLDERS_LIMIT:
                break
            folders[:] = sorted(f for f in folders if f[0] != "." and f not in _SKIPPED)
            inside = os.path.relpath(folder, self.folder)
            prefix = "" if inside == os.curdir else inside.replace(os.sep, ".") + "."
            found.extend(
                prefix + f[:-3] for f in sorted(files) if f.endswith(".py") and f != "__init__.py"
            )
            if "__init__.py" in files and prefix:
                found.append(prefix[:-1])
        return found

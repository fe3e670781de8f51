"""The static check of plugin functions: `python -m paddock.check`.

    python -m paddock.check --project DIR [--json] FIELD=module:function:kind[,kind]...

Nothing of the project is imported: its sources are parsed. For each function: its module's file
is there, the function is in it, has one of the decorators, is of the kind that its field takes,
and has the parameters of that kind, by name and in order; what its decorator's `Runtime(...)`
spells out is within range.

Without arguments the request is read from standard input, as `{"project": DIR, "functions":
[{"field", "function", "kinds"}]}`, and answered with `{"problems": [...]}`. A problem is
`{"field", "file", "line", "message", "advice"}`. Exit code: 0 without problems, 1 with some, 2
for a wrong command line.

What can't be told from the sources (a function that another function makes) is left to the import.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from ._check.function import Problem, check_function
from ._check.source import Project

Asked = tuple[str, str, tuple[str, ...]]
"""A field, the reference in it, and the kinds that it takes."""


def check(project: str, functions: Sequence[Asked]) -> list[Problem]:
    """The problems of some functions of a project; empty if there are none."""
    sources = Project(project)
    found: list[Problem] = []
    for field, reference, kinds in functions:
        found.extend(check_function(sources, field, reference, kinds))
    return found


def _as_dict(problem: Problem) -> dict[str, Any]:
    return dict(problem._asdict())


def _parse(text: str) -> Asked:
    field, equals, rest = text.rpartition("=")
    parts = rest.split(":")
    if not equals or len(parts) != 3 or not all(parts):
        raise argparse.ArgumentTypeError(f'"{text}": write FIELD=module:function:kind[,kind]')
    return field, f"{parts[0]}:{parts[1]}", tuple(parts[2].split(","))


def _from_input(text: str) -> int:
    asked = json.loads(text)
    functions = [(f["field"], f["function"], tuple(f["kinds"])) for f in asked["functions"]]
    problems = check(asked["project"], functions)
    print(json.dumps({"problems": [_as_dict(p) for p in problems]}))
    return 1 if problems else 0


def main(argv: Sequence[str]) -> int:
    """Runs the command, and returns its exit code."""
    if not argv:
        return _from_input(sys.stdin.read())
    parser = argparse.ArgumentParser(
        prog="python -m paddock.check",
        description="Checks plugin functions without importing them.",
    )
    parser.add_argument("--project", required=True, metavar="DIR", help="the project's folder")
    parser.add_argument("--json", action="store_true", help="print a JSON list of problems")
    parser.add_argument(
        "functions", nargs="+", type=_parse, metavar="FIELD=module:function:kind[,kind]"
    )
    asked = parser.parse_args(argv)
    problems = check(asked.project, asked.functions)
    if asked.json:
        print(json.dumps([_as_dict(p) for p in problems]))
    else:
        for problem in problems:
            place = problem.file or problem.field
            line = f":{problem.line}" if problem.line else ""
            print(f"{place}{line}: {problem.message} ({problem.field}); {problem.advice}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

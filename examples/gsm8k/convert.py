"""Turns GSM8K's published model solutions into recorded trajectories, one sample a line.

    python convert.py example_model_solutions.jsonl recorded.jsonl

Without the first argument it looks for `data/gsm8k/example_model_solutions.jsonl` in the folder
that PADDOCK_SHARED names. Needs the standard library alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def recorded(row: dict[str, Any]) -> dict[str, Any]:
    """A question with every model's solution, as `paddock grade --recorded` reads it."""
    question = {"role": "user", "content": row["question"]}
    models = [key for key, value in row.items() if isinstance(value, dict)]
    return {
        "sample": {
            "messages": [question],
            "extra": {"ground_truth": row["ground_truth"]},
        },
        "trajectories": [
            {
                "messages": [question, {"role": "assistant", "content": row[model]["solution"]}],
                "finish_reason": "stop",
                "extra": {"model": model, "is_correct": row[model]["is_correct"]},
            }
            for model in models
        ],
    }


def default_source() -> Path | None:
    """The file in the shared data folder, if there is one."""
    shared = os.environ.get("PADDOCK_SHARED")
    return Path(shared, "data/gsm8k/example_model_solutions.jsonl") if shared else None


def main() -> int:
    """Converts a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=default_source())
    parser.add_argument("target", nargs="?", type=Path, default=Path("recorded.jsonl"))
    arguments = parser.parse_args()
    if arguments.source is None:
        parser.error("name the file of solutions, or set PADDOCK_SHARED")
    if not arguments.source.is_file():
        parser.error(f"there is no file {str(arguments.source)!r}")
    samples = trajectories = 0
    with (
        arguments.source.open(encoding="utf-8") as source,
        arguments.target.open("w", encoding="utf-8") as target,
    ):
        for line in source:
            row = recorded(json.loads(line))
            samples += 1
            trajectories += len(row["trajectories"])
            target.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{arguments.target}: {samples} samples, {trajectories} trajectories")
    return 0


if __name__ == "__main__":
    sys.exit(main())

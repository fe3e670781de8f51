"""Writes train.jsonl and validation.jsonl: sums of two numbers below 100.

Run it from anywhere: `python data/make.py`. It always writes the same files.

Only held-out prompts are used: those whose SHA-256 begins with a byte below 64. The base model's
own training data leaves them out by the same rule (`docs/design/base-model.md`).
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

TRAIN, VALIDATION = 2000, 200


def held_out(prompt: str) -> bool:
    """True for the quarter of all prompts that the base model has never seen."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 64


def row(a: int, b: int) -> dict[str, object]:
    """One row of the data set."""
    return {
        "messages": [{"role": "user", "content": f"{a}+{b}="}],
        "extra": {"answer": a + b},
    }


def main() -> None:
    """Writes both files beside this one."""
    pairs = [(a, b) for a in range(100) for b in range(100) if held_out(f"{a}+{b}=")]
    random.Random("arithmetic").shuffle(pairs)
    folder = Path(__file__).parent
    parts = {
        "validation.jsonl": pairs[:VALIDATION],
        "train.jsonl": pairs[VALIDATION : VALIDATION + TRAIN],
    }
    for name, chosen in parts.items():
        lines = [json.dumps(row(a, b)) + "\n" for a, b in chosen]
        (folder / name).write_text("".join(lines), encoding="utf-8")
        print(f"{name}: {len(lines)} rows")


if __name__ == "__main__":
    main()

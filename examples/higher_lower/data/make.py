"""Writes train.jsonl and validation.jsonl: ranges to search, each with a secret number.

Run it from anywhere: `python data/make.py`. It always writes the same files.

Only held-out prompts are used: those whose SHA-256 begins with a byte below 64. The base model's
own training data leaves them out by the same rule (`docs/design/base-model.md`).
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

TRAIN_RANGES, VALIDATION_RANGES, SECRETS = 200, 50, 4


def held_out(prompt: str) -> bool:
    """True for the quarter of all prompts that the base model has never seen."""
    return hashlib.sha256(prompt.encode()).digest()[0] < 64


def prompt(low: int, high: int) -> str:
    """The game's first message."""
    return f"guess {low}-{high}"


def row(low: int, high: int, secret: int) -> dict[str, object]:
    """One row of the data set."""
    return {
        "messages": [{"role": "user", "content": prompt(low, high)}],
        "extra": {"low": low, "high": high, "secret": secret},
    }


def main() -> None:
    """Writes both files beside this one."""
    ranges = [
        (low, low + span)
        for low in range(1, 68)
        for span in range(7, 32)
        if held_out(prompt(low, low + span))
    ]
    rng = random.Random("higher_lower")
    rng.shuffle(ranges)
    folder = Path(__file__).parent
    parts = {
        "validation.jsonl": ranges[:VALIDATION_RANGES],
        "train.jsonl": ranges[VALIDATION_RANGES : VALIDATION_RANGES + TRAIN_RANGES],
    }
    for name, chosen in parts.items():
        rows = [
            row(low, high, secret)
            for low, high in chosen
            for secret in rng.sample(range(low, high + 1), SECRETS)
        ]
        rng.shuffle(rows)
        text = "".join(json.dumps(each) + "\n" for each in rows)
        (folder / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(rows)} rows")


if __name__ == "__main__":
    main()

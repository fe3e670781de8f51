"""Fixtures: a plugin written in the test, served by a real forkserver over real sockets."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from driver import Forkserver, Slot

PRELUDE = """\
import asyncio, logging, math, os, random, signal, sys, threading, time
from paddock import *
"""
"""Two lines: a plugin's own source begins on line 3."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a project with one module, `plugin.py`."""

    def write(source: str, name: str = "plugin.py") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PRELUDE + textwrap.dedent(source).lstrip("\n"), encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def start(write: Callable[[str], Path]) -> Iterator[Callable[..., Forkserver]]:
    """Starts a forkserver over a project with one module."""
    running: list[Forkserver] = []

    def start(source: str, **envs: str) -> Forkserver:
        server = Forkserver(write(source), envs)
        running.append(server)
        return server

    yield start
    for server in running:
        server.close()


@pytest.fixture
def serve(start: Callable[..., Forkserver]) -> Callable[..., Slot]:
    """Serves `plugin:f` of a source in one slot."""

    def serve(source: str, mode: str = "process", capacity: int = 10, **options: Any) -> Slot:
        fmt = options.pop("fmt", "as_is")
        frame_limit = options.pop("frame_limit", 64 << 20)
        server = start(source, **options)
        loaded = server.load("plugin:f")
        assert loaded["op"] == "loaded", loaded
        return server.slot(mode, capacity, fmt, frame_limit)

    return serve


@pytest.fixture
def grader(serve: Callable[..., Slot]) -> Callable[..., Slot]:
    """Serves a group grader of which the test writes the body."""

    def grader(lines: str, mode: str = "process", **options: Any) -> Slot:
        word = "async def" if mode == "loop" else "def"
        body = textwrap.indent(textwrap.dedent(lines).strip("\n"), "    ")
        return serve(
            f"@group_grader\n{word} f(context, sample, trajectories):\n{body}\n", mode, **options
        )

    return grader

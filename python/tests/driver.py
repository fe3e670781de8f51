"""The runtime's side of the wire, small: starts a forkserver, forks slots, makes calls.

It follows `docs/design/wire.md` on its own, without the worker's code, so that both can't be
wrong alike.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SDK = Path(__file__).resolve().parent.parent
DEADLINE = 30.0
HEADER = struct.Struct("<IBQI")
CALL, ANSWER, HELLO, CANCEL, DRAIN, DUMP, STACKS, LOG = 1, 2, 3, 10, 11, 12, 13, 14


def frame(kind: int, call: int = 0, attempt: int = 0, body: bytes = b"") -> bytes:
    return HEADER.pack(13 + len(body), kind, call, attempt) + body


class Closed(Exception):
    """The peer closed."""


class Reader:
    """Frames of a socket, waited for with a deadline."""

    def __init__(self, source: socket.socket) -> None:
        self.socket = source
        self.held = b""

    def next(self, deadline: float = DEADLINE) -> tuple[int, int, int, Any]:
        until = time.monotonic() + deadline
        while True:
            if len(self.held) >= 4:
                (length,) = struct.unpack_from("<I", self.held)
                if len(self.held) >= 4 + length:
                    whole, self.held = self.held[: 4 + length], self.held[4 + length :]
                    _, kind, call, attempt = HEADER.unpack_from(whole)
                    return kind, call, attempt, json.loads(whole[17:]) if length > 13 else None
            self.socket.settimeout(max(0.001, until - time.monotonic()))
            try:
                more = self.socket.recv(1 << 20)
            except TimeoutError:
                raise TimeoutError(f"no frame in {deadline} s; held {self.held[:200]!r}") from None
            except ConnectionResetError:
                raise Closed from None
            if not more:
                raise Closed
            self.held += more


class Pipe:
    """What comes out of a pipe, read by a thread so that it never fills."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.data = bytearray()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        os.close(self.write_end)
        self.thread.start()

    def _run(self) -> None:
        while True:
            more = os.read(self.read_end, 1 << 16)
            if not more:
                break
            self.data += more
        os.close(self.read_end)

    def wait_for(self, text: str, deadline: float = DEADLINE) -> str:
        until = time.monotonic() + deadline
        while time.monotonic() < until:
            found = self.data.decode("utf-8", "replace")
            if text in found:
                return found
            time.sleep(0.005)
        raise TimeoutError(f"{text!r} is not in {self.data[-2000:]!r}")


class Slot:
    """One slot, as the runtime sees it."""

    def __init__(
        self,
        server: Forkserver,
        number: int,
        mode: str,
        capacity: int,
        fmt: str,
        frame_limit: int,
    ) -> None:
        self.data, data = socket.socketpair()
        self.control, control = socket.socketpair()
        self.stdout, self.stderr, self.stack = Pipe(), Pipe(), Pipe()
        message = {"op": "fork", "slot": number, "mode": mode, "capacity": capacity}
        message["content_format"] = fmt
        message["frame_limit"] = frame_limit
        pipes = [self.stdout, self.stderr, self.stack]
        with data, control:
            fds = [data.fileno(), control.fileno(), *(p.write_end for p in pipes)]
            answer = server.ask(message, fds)
        assert answer["op"] == "forked", answer
        assert answer["slot"] == number
        self.pid = answer["pid"]
        for pipe in pipes:
            pipe.start()
        self.frames = Reader(self.data)
        self.controls = Reader(self.control)
        self.logs: list[dict[str, Any]] = []
        self.stacks: list[tuple[int, int, dict[str, Any]]] = []
        kind, _, _, hello = self.frames.next()
        assert kind == HELLO
        assert hello == {"version": 1, "pid": self.pid}

    def send(self, call: int, body: Any, attempt: int = 1) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.data.settimeout(DEADLINE)
        self.data.sendall(frame(CALL, call, attempt, raw))

    def tell(self, kind: int, call: int = 0, attempt: int = 1) -> None:
        self.control.sendall(frame(kind, call, attempt))

    def answer(self, deadline: float = DEADLINE) -> tuple[int, int, dict[str, Any]]:
        kind, call, attempt, body = self.frames.next(deadline)
        assert kind == ANSWER
        return call, attempt, body

    def call(self, body: Any, call: int = 1, attempt: int = 1) -> dict[str, Any]:
        self.send(call, body, attempt)
        got_call, got_attempt, answer = self.answer()
        assert (got_call, got_attempt) == (call, attempt)
        self.read_logs()
        return answer

    def read_logs(self, deadline: float = 0.0) -> list[dict[str, Any]]:
        """Takes what is on the control socket now; LOG frames come before their ANSWER."""
        while True:
            ready, _, _ = select.select([self.control], [], [], deadline)
            if not ready and len(self.controls.held) < 17:
                return self.logs
            kind, call, attempt, body = self.controls.next()
            if kind == LOG:
                self.logs.extend({**line, "call": call, "attempt": attempt} for line in body)
            else:
                assert kind == STACKS
                self.stacks.append((call, attempt, body))

    def dump(self, call: int = 1, attempt: int = 1, deadline: float = DEADLINE) -> dict[str, Any]:
        self.tell(DUMP, call, attempt)
        until = time.monotonic() + deadline
        while time.monotonic() < until:
            self.read_logs(0.05)
            if self.stacks:
                got_call, got_attempt, body = self.stacks.pop()
                assert (got_call, got_attempt) == (call, attempt)
                return body
        raise TimeoutError("no stacks")

    def alive(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
                return stat.read().rpartition(")")[2].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def wait_gone(self, deadline: float = DEADLINE) -> None:
        until = time.monotonic() + deadline
        while self.alive():
            assert time.monotonic() < until, f"slot {self.pid} is still there"
            time.sleep(0.005)

    def close(self) -> None:
        self.data.close()
        self.control.close()


class Forkserver:
    """A forkserver over a project folder."""

    def __init__(self, project: Path, envs: dict[str, str] | None = None) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.stdout, self.stderr = Pipe(), Pipe()
        self.slots: list[Slot] = []
        self.project = project
        env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(SDK), **(envs or {})}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "paddock._worker", str(theirs.fileno())],
                cwd=project,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=self.stdout.write_end,
                stderr=self.stderr.write_end,
                pass_fds=[theirs.fileno()],
            )
        self.stdout.start()
        self.stderr.start()

    def ask(self, message: dict[str, Any], fds: list[int] | None = None) -> dict[str, Any]:
        raw = json.dumps(message).encode()
        raw = struct.pack("<I", len(raw)) + raw
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([raw], rights)
        self.socket.settimeout(DEADLINE)
        held = b""
        while len(held) < 4 or len(held) < 4 + struct.unpack_from("<I", held)[0]:
            more = self.socket.recv(1 << 16)
            if not more:
                raise Closed(self.stderr.data.decode("utf-8", "replace"))
            held += more
        answer: dict[str, Any] = json.loads(held[4:])
        return answer

    def load(self, function: str) -> dict[str, Any]:
        return self.ask({"op": "load", "project": str(self.project), "function": function})

    def slot(
        self,
        mode: str = "process",
        capacity: int = 10,
        fmt: str = "as_is",
        frame_limit: int = 64 << 20,
    ) -> Slot:
        slot = Slot(self, len(self.slots), mode, capacity, fmt, frame_limit)
        self.slots.append(slot)
        return slot

    def close(self) -> None:
        for slot in self.slots:
            slot.close()
        self.socket.close()
        self.process.wait(DEADLINE)
        for slot in self.slots:
            try:
                os.killpg(slot.pid, 9)  # the slot and what it left: here is no reaper
            except ProcessLookupError:
                pass


def body(kind: str = "group", n: int = 2, **changes: Any) -> dict[str, Any]:
    """A call's body, as the engine writes it."""
    context = {
        "model_customization_job_id": "job_1",
        "foundation_model_name": "base",
        "foundation_model_version": "1",
        "customization_type": "GRPO",
        "phase": "train",
        "is_mock": False,
        "step": 3,
        "sample_id": "s1",
        "trajectory_id": None,
        "attempt": 1,
    }
    context.update(changes.pop("context", {}))
    prompt = {"role": "user", "content": "1+1=?"}
    sample = {"messages": [prompt], "extra": changes.pop("extra", {})}
    trajectory = {
        "messages": [prompt, {"role": "assistant", "content": "2"}],
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        "extra": {},
    }
    out: dict[str, Any] = {"context": context, "sample": sample}
    if kind == "group":
        out["trajectories"] = [trajectory] * n
    elif kind == "single":
        out["trajectory"] = trajectory
    else:
        out["proxy"] = {"url": "http://127.0.0.1:1/v1", "jwt_token": "secret"}
    out.update(changes)
    return out

"""The grader behind FastAPI and uvicorn, with pydantic models, as a coroutine and as a function.

Prints its port once it listens.
"""

import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Message(BaseModel):
    """One message of a conversation."""

    role: str
    content: str


class Sample(BaseModel):
    """A dataset row."""

    messages: list[Message]
    extra: dict[str, Any]


class Trajectory(BaseModel):
    """A finished rollout."""

    messages: list[Message]
    finish_reason: str


class Request(BaseModel):
    """What a grader is called with."""

    context: dict[str, Any]
    sample: Sample
    trajectory: Trajectory


class Result(BaseModel):
    """What it answers."""

    status: str = "success"
    reward: float


app = FastAPI()


def judge(request: Request) -> Result:
    """Is the last message the answer?"""
    right = request.trajectory.messages[-1].content == request.sample.extra["answer"]
    return Result(reward=float(right))


@app.post("/async")
async def grade_async(request: Request) -> Result:
    """On the event loop."""
    return judge(request)


@app.post("/def")
def grade_def(request: Request) -> Result:
    """In the thread pool."""
    return judge(request)


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, access_log=False, log_level="warning", backlog=4096)
    uvicorn.Server(config).run(sockets=[listener])

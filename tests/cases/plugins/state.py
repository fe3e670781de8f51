"""What a call must find as if no other had been before it, and how it talks to the test."""
import asyncio
import os
import signal
import socket
import threading

from paddock import GroupGraderResult

HOME = os.getcwd()


def ok(trajectories, **metrics):
    return GroupGraderResult(rewards=[1.0] * len(trajectories), metrics=metrics)


def clean(trajectories):
    """The answer of a `healthy` that looks around first."""
    assert os.getcwd() == HOME, os.getcwd()
    assert "LEFT_BEHIND" not in os.environ
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    pooled = ("asyncio_", "paddock-")
    others = [t for t in threading.enumerate() if not t.name.startswith(pooled)]
    assert others == [threading.main_thread()], others
    print("healthy prints")
    return ok(trajectories)


def tell(word):
    """Tells a word to the test, and comes back once it is heard."""
    host, _, port = os.environ["PADDOCK_CASE_PEER"].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as peer:
        peer.sendall(word.encode() + b"\n")
        peer.recv(1)


async def forever():
    while True:
        await asyncio.sleep(3600)

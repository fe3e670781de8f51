"""From a fresh fork to a slot that says HELLO: its session, its descriptors, its signal and its
streams.

The sockets get high descriptor numbers, out of the way of plugins that close every descriptor
they can count to.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import warnings
from dataclasses import dataclass

from . import codec, frames, logs
from .control import Control
from .descriptors import high_descriptor
from .load import Loaded
from .sender import Sender

MODES = ("process", "thread", "loop")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Order:
    """What the forkserver was asked to make."""

    slot: int
    mode: str
    capacity: int
    content_format: str
    frame_limit: int
    data: int
    control: int
    stdout: int
    stderr: int
    stack: int

    def descriptors(self) -> tuple[int, ...]:
        """The five descriptors that came with it."""
        return self.data, self.control, self.stdout, self.stderr, self.stack


class Wires:
    """A slot's sockets, and what goes through them."""

    def __init__(self, data: socket.socket, control: socket.socket) -> None:
        self.data = data
        self.control = control
        self.sender = Sender(control)
        self.thread = Control(control, data, self.sender)

    def answer(self, call: int, attempt: int, body: bytes) -> None:
        """Sends an answer. The process ends if nobody can get it."""
        try:
            self.data.sendall(frames.frame(frames.ANSWER, call, attempt, body))
        except OSError:
            os._exit(0)

    def forget(self) -> None:
        """In a child that a plugin forks: the sockets are the slot's alone."""
        for held in (self.data, self.control):
            try:
                os.close(held.detach())
            except OSError:
                pass


def become_subreaper() -> None:
    """What a call's children leave behind stays below the slot, and is found there."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def settle(order: Order) -> Wires:
    """Makes this process the slot: nothing of the forkserver's is left in it but the import."""
    frames.limit(order.frame_limit)
    os.setsid()
    become_subreaper()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.close(null)
    for descriptor, standard in ((order.stdout, 1), (order.stderr, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
        os.set_blocking(standard, True)
    stack = high_descriptor(order.stack)
    faulthandler.enable(file=stack)
    faulthandler.register(signal.SIGUSR2, file=stack, all_threads=True, chain=False)
    data = socket.socket(fileno=high_descriptor(order.data))
    control = socket.socket(fileno=high_descriptor(order.control))
    data.setblocking(True)
    control.setblocking(True)
    # A plugin that forks does so beside the control's thread, which holds no lock of the
    # interpreter.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork.*")
    wires = Wires(data, control)
    os.register_at_fork(after_in_child=wires.forget)
    os.register_at_fork(after_in_child=logs.in_forked_child)
    logs.connect(wires.sender)
    return wires


def run(order: Order, loaded: Loaded) -> None:
    """Is the slot until the runtime closes it. Never returns."""
    code = 70
    try:
        wires = settle(order)
        hello = codec.encode({"version": frames.VERSION, "pid": os.getpid()})
        wires.data.sendall(frames.frame(frames.HELLO, 0, 0, hello))
        parts = order.content_format == "parts"
        if order.mode == "process":
            from .process_slot import ProcessSlot

            ProcessSlot(wires, loaded, parts).serve()
        elif order.mode == "thread":
            from .thread_slot import ThreadSlot

            ThreadSlot(wires, loaded, parts, order.capacity).serve()
        else:
            from .loop_slot import LoopSlot

            LoopSlot(wires, loaded, parts).serve()
        code = 0
    except OSError:
        code = 0  # the runtime is gone
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)

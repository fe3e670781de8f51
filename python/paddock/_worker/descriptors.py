"""Descriptor numbers out of the way of plugins that close every one that they can count to."""

from __future__ import annotations

import fcntl
import os
import resource

_TOP = 4096
_ROOM = 128


def high_descriptor(descriptor: int) -> int:
    """The same open file under a high number, closed on exec; the low number is closed."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = max(16, (min(soft, _TOP) if soft > 0 else _TOP) - _ROOM)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return high

"""Random numbers of a call: the same for the same call, whatever ran in the process before.

The seed comes from the sample, the trajectory and the function, never from the attempt. In a slot
that runs several calls at once the generators are shared: there only what a call draws before it
first waits is its own.
"""

from __future__ import annotations

import _random
import sys
import zlib
from typing import Any


def seed(context: Any, function: str) -> None:
    """Seeds the generators of the modules that are loaded."""
    sample = dict.get(context, "sample_id")
    trajectory = dict.get(context, "trajectory_id")
    value = zlib.crc32(f"{sample}\0{trajectory}\0{function}".encode("utf-8", "replace"))
    modules = sys.modules
    random = getattr(modules.get("random"), "_inst", None)
    if random is not None:  # `random.seed` without what it does for seeds that aren't whole numbers
        _random.Random.seed(random, value)
        random.gauss_next = None
    numpy = modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(value)
    torch = modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(value)

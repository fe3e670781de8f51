"""`python -P -m paddock._worker FD`: a forkserver on the inherited socket FD."""

from __future__ import annotations

import sys

from . import forkserver

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--slot":
        forkserver.be_slot(sys.argv[2])
    elif len(sys.argv) == 2 and sys.argv[1].isdecimal():
        forkserver.main(int(sys.argv[1]))
    else:
        sys.exit("usage: python -P -m paddock._worker FD (the runtime starts it)")

"""The process side of the wire: a forkserver that imports a plugin once, and the slots forked
from it.

`docs/design/wire.md` is the contract. Nothing in here may start a thread, a loop or a client
before a fork.
"""

"""The SDK's version: the executable that carries it has the same."""

__version__ = "0.1.0"

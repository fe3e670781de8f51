"""How files are named in tracebacks and stacks: short, and the same behind a fence."""

from __future__ import annotations

import os
import sys
import sysconfig

_SDK = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WORKER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = sorted(
    {
        os.path.abspath(path) + os.sep
        for path in (*sysconfig.get_paths().values(), os.path.dirname(os.__file__), sys.prefix)
        if path
    },
    key=len,
    reverse=True,
)

_project = os.getcwd() + os.sep


def set_project(folder: str) -> None:
    """Says where the project is. Its files are the plugin's own."""
    global _project
    _project = os.path.abspath(folder) + os.sep


def is_sdk(file: str) -> bool:
    """True for the SDK's and the worker's own files."""
    return file.startswith(_SDK)


def is_worker(file: str) -> bool:
    """True for the worker's own files."""
    return file.startswith(_WORKER)


def is_plugin(file: str) -> bool:
    """True for a file of the project."""
    if not file.startswith(_project) or file.startswith(_SDK):
        return False
    return not any(file.startswith(library) for library in _LIBRARIES)


def short(file: str) -> str:
    """The file's name from the project's folder, or from its library's."""
    if is_plugin(file):
        return file[len(_project) :]
    for library in _LIBRARIES:
        if file.startswith(library):
            return file[len(library) :]
    if file.startswith(_SDK):
        return "paddock/" + file[len(_SDK) :]
    return file

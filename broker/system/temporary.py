"""Temporary files and directories, which their caller removes; imported where one is needed."""

from __future__ import annotations

import os
import shutil
import tempfile

PREFIX = "ottla-"


def make_directory() -> str:
    """The path of a new, empty one. Raises OSError."""
    return tempfile.mkdtemp(prefix=PREFIX)


def remove_directory(path: str) -> None:
    """With all that is in it, as far as possible."""
    shutil.rmtree(path, ignore_errors=True)


def unnamed_file() -> int:
    """The descriptor of a file that no other process can open. Raises OSError."""
    descriptor, path = tempfile.mkstemp(prefix=PREFIX)
    os.unlink(path)
    return descriptor

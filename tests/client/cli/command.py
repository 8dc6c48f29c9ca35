"""Runs ``ottla`` as a user does, in a separate process, or directly within this one."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.__main__ import main

if TYPE_CHECKING:
    import pytest


class Ended(NamedTuple):
    """How the process ended and what it wrote."""

    status: int
    output: bytes
    errors: str


async def ottla(*arguments: str, stdin: bytes = b"") -> Ended:
    """Run the command to its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ottla",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate(stdin)
    assert process.returncode is not None
    return Ended(process.returncode, output, errors.decode())


class Ottla(Protocol):
    """Runs a command and returns how it ended."""

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ended: ...


def in_process(capture: pytest.CaptureFixture[bytes]) -> Ottla:
    """The command as a function call: no start of Python, but no event loop may run here."""

    def run(*arguments: str, stdin: bytes = b"") -> Ended:
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            saved = os.dup(0)
            os.dup2(file.fileno(), 0)
            try:
                status = main(arguments)
            except SystemExit as exit_:
                status = int(str(exit_.code))
            finally:
                os.dup2(saved, 0)
                os.close(saved)
        output, errors = capture.readouterr()
        return Ended(status, output, errors.decode())

    return run


def is_one_sentence(errors: str) -> bool:
    """One line, and no traceback."""
    return errors.count("\n") == 1 and errors.endswith("\n") and "Traceback" not in errors

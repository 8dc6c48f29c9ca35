"""Runs ``ottla`` as a person does: as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from typing import NamedTuple


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


def is_one_sentence(errors: str) -> bool:
    """One line, and no traceback."""
    return errors.count("\n") == 1 and errors.endswith("\n") and "Traceback" not in errors

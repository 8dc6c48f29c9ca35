"""A console as a process, for tests in a browser."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURES = ROOT / "build" / "console"
READY = "ottla: console at "


@contextmanager
def console_process(bootstrap: str, *options: str) -> Iterator[str]:
    """The address of a console of that cluster, which ends with the block."""
    command = ("console", "-b", bootstrap, "--port", "0", *options)
    with subprocess.Popen(
        [sys.executable, "-m", "ottla", *command], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY)
        yield line.removeprefix(READY).strip().rstrip("/")
        process.terminate()

"""A broker process that keeps everything in memory, for tests that share it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STOPPED_TIMEOUT_S = 90.0


@contextmanager
def memory_broker(*settings: str) -> Iterator[str]:
    """Its address, while it runs. Settings are as ``auto.create.topics.enable=false``."""
    command = [sys.executable, "-m", "ottla", "start", "--memory", "--port", "0"]
    for setting in settings:
        command += ["-o", setting]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process, process.stdout as output:
        ready = output.readline().decode()
        assert ready.startswith("ottla: ready at "), ready
        yield ready.removeprefix("ottla: ready at ").strip()
        process.terminate()
        assert process.wait(STOPPED_TIMEOUT_S) == 0

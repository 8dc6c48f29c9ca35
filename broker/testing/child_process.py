"""The process of one broker: starts, signals and reaps it, and keeps its standard error."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import tempfile
import weakref

import ottla

CHILD_MODULE = "ottla.broker.testing.child"
STDERR_BYTES_MAX = 2_000


class ChildProcess:
    """A process that is started once and ends with this object at the latest."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._words = ""

    def start(self) -> socket.socket:
        """Start the process; returns a socket that is connected to it."""
        ours, theirs = socket.socketpair()
        level = logging.getLogger("ottla").getEffectiveLevel()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD_MODULE, str(theirs.fileno()), str(level)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=_environment(),
                pass_fds=[theirs.fileno()],
            )
        # A stopped process would not notice that its cluster has ended.
        weakref.finalize(self, _kill, self._process)
        return ours

    @property
    def is_started(self) -> bool:
        return self._process is not None

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill and reap the process. May be called again."""
        if self._process is not None:
            _kill(self._process)
        self.last_words()
        self._stderr.close()

    def last_words(self) -> str:
        """The end of its standard error."""
        if not self._stderr.closed:
            self._stderr.seek(0)
            words = self._stderr.read().decode(errors="replace").strip()
            self._words = words[-STDERR_BYTES_MAX:] or "it has said nothing"
        return self._words


def _environment() -> dict[str, str]:
    """This process's environment, with its Ottla on the path."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(ottla.__file__)))
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()

"""A real broker in its own process, as a user starts it: for kill tests and foreign clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support import evidence
from tests.support.hostile.secret_scan import check_process
from tests.support.ports import free_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 120.0
STOPPED_TIMEOUT_S = 90.0


class BrokerProcess:
    """``ottla start`` on a free port. A context manager: leaving it stops the broker."""

    def __init__(
        self,
        data_dir: Path,
        *,
        options: Mapping[str, str] | None = None,
        port: int = 0,
        extra: Sequence[str] = (),
        launcher: Sequence[str] = (),
    ) -> None:
        """``launcher`` is put before the command, for example to run it on another host of the
        test's."""
        self.data_dir = data_dir
        # Kept over restarts, so not one that clients are given. Several brokers find their own.
        self.port = port or (0 if "--brokers" in extra else free_row(1))
        self.ready_line = ""
        self._options = dict(options or {})
        self._extra = list(extra)
        self._launcher = list(launcher)
        self._host = "127.0.0.1"
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr_path = data_dir.parent / f"{data_dir.name}.stderr"
        self._rest: list[bytes] = []
        self._reader: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        """The command line; all starts use the same port."""
        command = [*self._launcher, sys.executable, "-m", "ottla", "start"]
        command += ["--port", str(self.port)]
        command += ["--data-dir", str(self.data_dir)]
        for key, value in self._options.items():
            command += ["-o", f"{key}={value}"]
        return command + self._extra

    def start(self) -> Self:
        """Start and wait for the ready line. Raises RuntimeError with what the broker said."""
        assert self._process is None
        evidence.note(evidence.PROCESS)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=stderr, cwd=ROOT, env=environment
            )
        assert self._process.stdout is not None
        timer = threading.Timer(READY_TIMEOUT_S, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        self.ready_line = line.decode()
        if not line.startswith(b"ottla: ready at "):
            status = self.wait()
            raise RuntimeError(f"the broker ended with status {status}: {self.stderr()[-3000:]}")
        host, _, port = line.decode().rstrip().removeprefix("ottla: ready at ").rpartition(":")
        self._host, self.port = host, int(port)
        self._rest = []
        self._reader = threading.Thread(target=self._drain, daemon=True)
        self._reader.start()
        return self

    def _drain(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        self._rest.append(process.stdout.read())

    def stderr(self) -> str:
        """All that the broker has logged."""
        return self._stderr_path.read_text("utf-8", "replace")

    def stdout_after_ready(self) -> bytes:
        """Output of the broker after the ready line, once it has ended."""
        assert self._reader is not None
        self._reader.join(60)
        return b"".join(self._rest)

    def kill(self) -> None:
        """kill -9, then reap."""
        self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the running broker."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout_s: float = STOPPED_TIMEOUT_S) -> int:
        """Wait for the end and return the exit status; a broker that does not end is killed."""
        process = self._process
        assert process is not None
        try:
            status = process.wait(timeout_s)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if self._reader is not None:
                self._reader.join(60)
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        check_process(self.command(), self._stderr_path, self.data_dir)
        return status

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    def stop(self) -> int:
        """SIGTERM and wait; the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop()

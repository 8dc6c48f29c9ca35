"""A Spark cluster on this machine: a master and a worker, processes of their own as on many."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark

from tests.client.spark.support.sessions import prepare_environment

if TYPE_CHECKING:
    from types import TracebackType

HERE = "127.0.0.1"
PATIENCE_S = 800.0
MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
REGISTERED = re.compile(r"Successfully registered with master")
# What submits a driver: it can be reached from here alone, and asks for little.
SMALL = {
    "spark.driver.host": HERE,
    "spark.driver.bindAddress": HERE,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
}


class Standalone:
    """A Spark standalone cluster. Use as a context manager: it ends all processes."""

    def __init__(self, folder: Path, home: Path) -> None:
        prepare_environment()
        self.master = ""
        self.home = home
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            ports = ("--host", HERE, "--port", "0", "--webui-port", "0")
            self.master = self._start("master.Master", MASTER, *ports)
            room = ("--cores", "2", "--memory", "1g", "--work-dir", str(self._folder / "work"))
            self._start("worker.Worker", REGISTERED, *ports, *room, self.master)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def environment(self) -> dict[str, str]:
        """Environment of the submitting process."""
        return {**os.environ, "SPARK_HOME": str(self.home), "SPARK_LOCAL_IP": HERE}

    def submit(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it there, and wait for its end."""
        settings = [word for name, value in SMALL.items() for word in ("--conf", f"{name}={value}")]
        return subprocess.run(
            [self.program("spark-submit"), "--master", self.master, *settings, script, *words],
            cwd=self._folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def program(self, name: str) -> str:
        """A program of PySpark's distribution."""
        return str(Path(pyspark.__path__[0]) / "bin" / name)

    def _start(self, name: str, ready: re.Pattern[str], *words: str) -> str:
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            self._running.append(
                subprocess.Popen(
                    [self.program("spark-class"), f"org.apache.spark.deploy.{name}", *words],
                    # They log their address at level INFO.
                    env={**self.environment(), "SPARK_LOG_LEVEL": "INFO"},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + PATIENCE_S
        while (found := ready.search(log.read_text("utf-8", "replace"))) is None:
            ended = self._running[-1].poll()
            assert ended is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < deadline, log.read_text("utf-8", "replace")
            time.sleep(0.2)
        return found[found.lastindex or 0]

    def _end(self) -> None:
        for process in reversed(self._running):
            # With the executors that a worker has started.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def script_of(job: str) -> str:
    """The file of a job, as the page finds it."""
    words = f"import ottla.client.spark.jobs.{job} as job; print(job.__file__)"
    return subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=True
    ).stdout.strip()

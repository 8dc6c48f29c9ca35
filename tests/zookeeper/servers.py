"""Real ZooKeeper servers on loopback, to be started, stopped, killed and frozen.

Everything here blocks: where an event loop must keep running, call it in a thread. Usable without
pytest: ``with ZooKeeperServer() as server: ... server.address``.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from tests.support import evidence
from tests.support.ports import HOST, free_ports
from tests.zookeeper.java import class_path, java

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

START_LIMIT_SECONDS = 120.0
POLL_SECONDS = 0.02

_JVM = (
    "-Xms16m",
    "-Xmx96m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
)
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ABSOLUTE} %p %c{1} %m%n
"""
# Of ZooKeeper 3.8.
_LOGGING_BY_LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} %p %logger{1} %m%n</pattern></encoder>
  </appender>
  <root level="warn"><appender-ref ref="out"/></root>
</configuration>
"""


class Settings(NamedTuple):
    """Short ticks make short sessions possible. ``flushes`` False: writes are not forced to the
    disk, which changes nothing unless the machine itself goes down."""

    tick_ms: int = 100
    session_min_ms: int = 200
    session_max_ms: int = 60_000
    flushes: bool = False
    # More lines of zoo.cfg, for TLS.
    tls: tuple[str, ...] = ()


DEFAULTS = Settings()


class Ports(NamedTuple):
    """Where one server of an ensemble listens."""

    client: int
    quorum: int
    election: int


class Running:
    """Runs within a ``with`` statement, and leaves nothing behind."""

    def start(self) -> Self:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ZooKeeperServer(Running):
    """One server, alone or as a member of an ensemble; its files outlive ``kill`` and ``stop``."""

    def __init__(
        self,
        settings: Settings = DEFAULTS,
        *,
        number: int = 1,
        ensemble: tuple[Ports, ...] = (),
        host: str = HOST,
        launcher: Sequence[str] = (),
    ) -> None:
        """``launcher`` is put before the command and places it where ``host`` is."""
        self.number = number
        self._host = host
        self._launcher = list(launcher)
        self._settings = settings
        self._ensemble = ensemble
        self.port = ensemble[number - 1].client if ensemble else free_ports(1)[0]
        self.directory = Path(tempfile.mkdtemp(prefix="zookeeper-"))
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)
        self._write_files()

    @property
    def address(self) -> str:
        """The address in the form of ``zookeeper.connect``."""
        return f"{self._host}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Frozen counts as running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start, or start again over the same files, and wait until it serves."""
        self.begin()
        self.wait_until_serving()
        return self

    def begin(self) -> None:
        """Start without waiting: the first member of an ensemble cannot serve alone."""
        assert not self.is_running
        evidence.note(evidence.ZOOKEEPER)
        main = "quorum.QuorumPeerMain" if self._ensemble else "ZooKeeperServerMain"
        flush = "yes" if self._settings.flushes else "no"
        with (self.directory / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self._launcher,
                    java(),
                    *_JVM,
                    f"-Dzookeeper.forceSync={flush}",
                    "-Dzookeeper.admin.enableServer=false",
                    f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
                    f"-Dlogback.configurationFile={self.directory / 'logback.xml'}",
                    "-cp",
                    class_path(with_tls=bool(self._settings.tls)),
                    f"org.apache.zookeeper.server.{main}",
                    str(self.directory / "zoo.cfg"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def mode(self) -> str:
        """ "standalone", "leader", "follower"; "" while it does not serve."""
        try:
            with socket.create_connection((self._host, self.port), timeout=5) as asked:
                asked.sendall(b"srvr")
                text = b"".join(iter(lambda: asked.recv(4096), b"")).decode()
        except OSError:
            return ""
        found = [line for line in text.splitlines() if line.startswith("Mode:")]
        return found[0].removeprefix("Mode:").strip() if found else ""

    def wait_until_serving(self) -> None:
        """Raises RuntimeError with the server's own words."""
        deadline = time.monotonic() + START_LIMIT_SECONDS
        # An answer to ``ruok`` would come before it serves.
        while not self.mode():
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"ZooKeeper does not serve:\n{self.log()}")
            time.sleep(POLL_SECONDS)

    def kill(self) -> None:
        """Kill the process, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the process, as an operator does."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Freeze: connections stay open, and requests are not answered. Nothing happens if it is
        dead."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Thaw."""
        self._signal(signal.SIGCONT)

    def log(self) -> str:
        """The end of what it has written."""
        path = self.directory / "log.txt"
        return path.read_text("utf-8", "replace")[-4000:] if path.exists() else ""

    def close(self) -> None:
        """Kill it and remove its files. May be called again."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.close)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            # A frozen process can be killed, but does not stop cleanly before it is thawed.
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(START_LIMIT_SECONDS)
            self._process = None

    def _signal(self, what: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(what)

    def _write_files(self) -> None:
        lines = [
            f"tickTime={self._settings.tick_ms}",
            f"dataDir={self.directory}",
            f"clientPort={self.port}",
            f"clientPortAddress={self._host}",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            "maxClientCnxns=0",
            f"minSessionTimeout={self._settings.session_min_ms}",
            f"maxSessionTimeout={self._settings.session_max_ms}",
        ]
        lines += self._settings.tls
        if self._ensemble:
            # Ticks: thirty seconds to join, five to be missed.
            lines.append(f"initLimit={30_000 // self._settings.tick_ms}")
            lines.append(f"syncLimit={5_000 // self._settings.tick_ms}")
            lines += [
                f"server.{number}={HOST}:{ports.quorum}:{ports.election}"
                for number, ports in enumerate(self._ensemble, 1)
            ]
            (self.directory / "myid").write_text(str(self.number))
        (self.directory / "zoo.cfg").write_text("\n".join(lines) + "\n")
        (self.directory / "log4j2.properties").write_text(_LOGGING)
        (self.directory / "logback.xml").write_text(_LOGGING_BY_LOGBACK)


class Ensemble(Running):
    """Several servers that agree by majority."""

    def __init__(self, count: int = 3, settings: Settings = DEFAULTS) -> None:
        ports = free_ports(3 * count)
        members = tuple(Ports(*ports[place : place + 3]) for place in range(0, 3 * count, 3))
        self.servers = [
            ZooKeeperServer(settings, number=number, ensemble=members)
            for number in range(1, count + 1)
        ]

    @property
    def address(self) -> str:
        """The addresses in the form of ``zookeeper.connect``."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> Self:
        """Start those that are not running, and wait until all serve."""
        stopped = [server for server in self.servers if not server.is_running]
        for server in stopped:
            server.begin()
        for server in self.servers:
            server.wait_until_serving()
        return self

    def leader(self) -> ZooKeeperServer:
        """Wait until there is one, and return it."""
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < deadline:
            for server in self.servers:
                if server.is_running and server.mode() == "leader":
                    return server
            time.sleep(POLL_SECONDS)
        raise RuntimeError("no leader was elected")

    def kill(self) -> None:
        """All at once: none is given the time to take a session over."""
        for server in self.servers:
            server.pause()
        for server in self.servers:
            server.kill()

    def close(self) -> None:
        """Kill all and remove their files."""
        for server in self.servers:
            server.close()

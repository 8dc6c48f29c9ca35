"""Apache Kafka itself, started from its Maven artefacts, for the same loads in the same run.

Needs ``mvn`` and ``java``. Maven resolves the artefacts into its own local repository; class paths
are remembered in the cache folder. Everything listens on the loopback only.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import CACHE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

VERSIONS = ("3.9.1", "4.1.0")
# As Kafka's own start script sets them.
JAVA_OPTIONS = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
_PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>benchmarks</groupId><artifactId>kafka</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{}</version>
</dependency></dependencies>
</project>
"""
MAVEN_TIMEOUT_S = 900


def is_available() -> bool:
    """Whether this machine has what it takes."""
    return shutil.which("mvn") is not None and shutil.which("java") is not None


def class_path(version: str) -> str:
    """The jars of that version. Raises CalledProcessError if Maven cannot get them."""
    folder = CACHE / f"kafka-{version}"
    found = folder / "class-path"
    if found.exists() and all(Path(jar).exists() for jar in found.read_text().split(":")):
        return found.read_text()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_PROJECT.format(version))
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={found}"]
    subprocess.run(
        ["mvn", "--quiet", "--batch-mode", *goal],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=MAVEN_TIMEOUT_S,
    )
    return found.read_text()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _new_cluster_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def cluster_of(
    version: str, folder: Path, count: int, options: Mapping[str, str]
) -> list[KafkaProcess]:
    """So many nodes of one cluster, each formatted and not started."""
    cluster_id = _new_cluster_id()
    ports = [_free_port() for _ in range(count)]
    nodes = []
    for node_id in range(1, count + 1):
        place = folder / str(node_id)
        place.mkdir()
        node = KafkaProcess(version, place, options, ports, node_id)
        node.format(cluster_id)
        nodes.append(node)
    return nodes


class KafkaProcess:
    """One node that is broker and controller. Use as a context manager."""

    def __init__(
        self,
        version: str,
        folder: Path,
        options: Mapping[str, str],
        controller_ports: Sequence[int] = (),
        node_id: int = 1,
        *,
        encrypts: bool = False,
    ) -> None:
        """The controllers of all nodes listen on ``controller_ports``, this node's on the one at
        its id; default: a port of its own, for a node that is alone."""
        self.port = _free_port()
        # Served if it encrypts; the options say with which certificate.
        self.tls_port = _free_port()
        ports = controller_ports or (_free_port(),)
        controller_port = ports[node_id - 1]
        voters = [f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports, 1)]
        loopback = f"PLAINTEXT://127.0.0.1:{self.port}"
        if encrypts:
            loopback += f",SSL://127.0.0.1:{self.tls_port}"
        self._folder = folder
        self._class_path = class_path(version)
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{loopback},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": loopback,
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **options,
        }
        self._properties = folder / "server.properties"
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._properties.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def format(self, cluster_id: str = "") -> None:
        """Prepare the data directory, which is done once in a broker's life; default: for a
        cluster of its own."""
        cluster_id = cluster_id or _new_cluster_id()
        arguments = ["format", "-t", cluster_id, "-c", str(self._properties)]
        command = ["java", "-cp", self._class_path, "kafka.tools.StorageTool", *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)

    def start(self) -> None:
        """Start the broker without waiting until it serves."""
        command = ["java", *JAVA_OPTIONS, "-cp", self._class_path, "kafka.Kafka"]
        with (self._folder / "output").open("wb") as output:
            self._process = subprocess.Popen(
                [*command, str(self._properties)],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )

    def stop(self) -> None:
        """SIGTERM, wait, and kill if it must be."""
        process = self._process
        assert process is not None
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> KafkaProcess:
        self.format()
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

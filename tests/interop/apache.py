"""Apache Kafka itself, one node in KRaft mode, for our own clients to be tried on."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.interop.environments import java_classpath

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
START_S = 240
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=3
transaction.partition.verification.enable=false
group.initial.rebalance.delay.ms=0
"""


@contextmanager
def apache_kafka(version: str, folder: Path) -> Iterator[str]:
    """The address of a broker of that version. Verification is off, so that a transaction can be
    made to hang."""
    port, control = free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(SETTINGS.format(port=port, control=control, folder=folder))
    java = ["java", "-Xmx400m", "-cp", java_classpath(version)]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings)],
        check=True,
        capture_output=True,
        timeout=START_S,
    )
    process = subprocess.Popen(
        [*java, "kafka.Kafka", str(settings)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        wait_for(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when somebody listens."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        assert process.poll() is None, "Kafka has ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"nobody listens on port {port}")

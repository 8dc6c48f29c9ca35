"""Java's clients push their metrics, and Kafka's tool says which (KIP-714)."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow]

METRICS_TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
PUSHED_WITHIN_S = 60


class Site:
    """A broker that takes metrics, and its metrics page."""

    def __init__(self, address: str, metrics_port: int) -> None:
        self.address = address
        self._page = f"http://127.0.0.1:{metrics_port}/metrics"

    def page(self) -> str:
        """The page as Prometheus reads it."""
        with urllib.request.urlopen(self._page, timeout=10) as answer:
            return str(answer.read(), "utf-8")

    def java(self, version: str, tool: str, *arguments: str) -> str:
        """Run one of Kafka's tools and return what it writes."""
        command = ["java", "-Xmx256m", "-cp", java_classpath(version), tool]
        address = ["--bootstrap-server", self.address]
        done = subprocess.run(
            [*command, *address, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A broker process with a receiver."""
    port = free_row(1)
    folder: Path = tmp_path_factory.mktemp("metrics")
    options = {"ottla.client.telemetry": "true"}
    running = BrokerProcess(folder / "data", options=options, extra=["--metrics", str(port)])
    with running:
        yield Site(running.address, port)


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_the_tool_sets_a_subscription_and_a_producer_pushes(site: Site, version: str) -> None:
    """What an operator of Kafka types, and Java's own client as the judge of the answers."""
    needs("java", "mvn")
    name = f"of-{version}"
    which = ["--name", name]
    wanted = ["--metrics", "*", "--interval", "200", "--match", f"client_id=console-{version}"]
    site.java(version, METRICS_TOOL, "--alter", *which, *wanted)
    described = site.java(version, METRICS_TOOL, "--describe", *which)
    listed = site.java(version, METRICS_TOOL, "--list")
    old = version.startswith("3.")
    tool = "kafka.tools.ConsoleProducer" if old else "org.apache.kafka.tools.ConsoleProducer"
    words = ["--bootstrap-server", site.address, "--topic", "pushed"]
    words += ["--producer-property", f"client.id=console-{version}"]
    producer = subprocess.Popen(
        ["java", "-Xmx128m", "-cp", java_classpath(version), tool, *words], stdin=subprocess.PIPE
    )
    try:
        assert producer.stdin is not None
        producer.stdin.write(b"hello\n")
        producer.stdin.flush()
        label = f'client_id="console-{version}"'
        ends = time.monotonic() + PUSHED_WITHIN_S
        while label not in site.page() and time.monotonic() < ends:
            time.sleep(0.2)
        text = site.page()
    finally:
        producer.communicate(timeout=30)
    site.java(version, METRICS_TOOL, "--delete", *which)

    assert "interval.ms=200" in described
    assert name in listed.split()
    assert name not in site.java(version, METRICS_TOOL, "--list").split()
    lines = [line for line in text.splitlines() if label in line]
    assert any('client_software_name="apache-kafka-java"' in line for line in lines)
    assert any(line.startswith("kafka_client_producer_") for line in lines)

"""What looks at the cluster of the compose file: console, Prometheus, Grafana."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ottla.client.cli.parsers.console import parser as console_parser
from tests.compose.composition import ROOT, Composition
from tests.support.broker_process import BrokerProcess
from tests.support.ports import HOST, free_ports

if TYPE_CHECKING:
    from pathlib import Path

FILE = Composition()
GRAFANA = ROOT / "deploy" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
LIMIT_S = 60.0


def read(path: Path) -> Any:
    """A file in YAML."""
    return yaml.safe_load(path.read_text("utf-8"))


def test_they_run_only_when_they_are_asked_for() -> None:
    """A user who wants a cluster does not wait for their images."""
    assert {name: one.profiles for name, one in FILE.watchers.items()} == {
        "console": ["console", "observability"],
        "prometheus": ["observability"],
        "grafana": ["observability"],
    }


@pytest.mark.parametrize("name", FILE.watchers)
def test_they_have_limits_and_no_rights_to_spare(name: str) -> None:
    """One that leaks memory or fills a disk with its log must not take the brokers along."""
    written = FILE.watchers[name].written

    assert written["cap_drop"] == ["ALL"]
    assert written["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "logging"} <= written.keys()
    for service in FILE.services.values():
        assert {"mem_limit", "logging"} <= service.written.keys()


def test_prometheus_asks_every_broker_where_it_answers() -> None:
    """A target that is spelled otherwise is a gap in all figures."""
    (job,) = read(ROOT / "deploy" / "prometheus" / "prometheus.yml")["scrape_configs"]
    (group,) = job["static_configs"]
    (port,) = {
        broker.environment["KAFKA_OTTLA_METRICS_LISTENER"].rpartition(":")[2]
        for broker in FILE.brokers
    }

    assert group["targets"] == [f"{broker.name}:{port}" for broker in FILE.brokers]


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    """By the names of the compose file."""
    (source,) = read(GRAFANA / "provisioning" / "datasources" / "prometheus.yml")["datasources"]
    (provider,) = read(GRAFANA / "provisioning" / "dashboards" / "ottla.yml")["providers"]
    grafana = FILE.watchers["grafana"]

    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in FILE.watchers
    assert grafana.mounts[provider["options"]["path"]] == "./deploy/grafana/dashboards"
    assert source["type"] == "prometheus"
    assert [path.name for path in DASHBOARDS] == ["ottla.json"]


def test_the_console_of_the_file_shows_the_cluster(tmp_path: Path) -> None:
    """Its command and its check of health, as a process of this machine."""
    written = FILE.watchers["console"].written
    assert console_parser().parse_args(written["command"][1:]).host == "0.0.0.0"
    (port,) = free_ports(1)
    renamed = {"0.0.0.0": HOST, "8080": str(port)}
    words = [renamed.get(word, word) for word in written["command"]]
    check = [text.replace(":8080", f":{port}") for text in written["healthcheck"]["test"][2:]]
    with BrokerProcess(tmp_path / "data") as broker:
        command = [sys.executable, "-m", "ottla", *words, "-b", broker.address]
        console = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + LIMIT_S
            while subprocess.run(
                [sys.executable, *check], capture_output=True, check=False
            ).returncode:
                assert console.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.2)
        finally:
            console.terminate()
            console.wait(LIMIT_S)

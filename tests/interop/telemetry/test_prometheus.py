"""A real Prometheus beside three brokers: it loads the rules, and each panel of the dashboards gets
data.

Debian has it in the package prometheus. Grafana itself is not run: its variables are filled in here
as it does it, and the expressions are asked of Prometheus as its panels ask them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

import ottla
import ottla.sync
from tests.interop.support.apache import free_ports
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_row
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow]
DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "rules"
CONFIG = ROOT / "deploy" / "prometheus" / "prometheus.yml"
LIMIT_S = 90.0
VARIABLES = {"$__rate_interval": "10s", "$instance": ".*", "$topic": ".*"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Prometheus with the file and the rules of ``deploy``; targets and times differ."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed: apt install prometheus")
    folder, first = tmp_path_factory.mktemp("prometheus"), free_row(3)
    options = {"ottla.metrics.listener": f"127.0.0.1:{first}"}
    with (
        BrokerProcess(folder / "data", options=options, extra=("--brokers", "3")) as brokers,
        ottla.sync.Admin(brokers.address) as admin,
    ):
        admin.create_topic(ottla.NewTopic("orders", 3, 3))
        # So small that the records of this test are throttled now and then.
        admin.quotas.alter_quotas({"client-id": None}, {"producer_byte_rate": 500.0})
        targets = [f"127.0.0.1:{port}" for port in range(first, first + 3)]
        with _running(program, folder, targets) as client:
            _traffic(brokers.address, client)
            yield client


@contextmanager
def _running(program: str, folder: Path, targets: list[str]) -> Iterator[httpx.Client]:
    config = yaml.safe_load(CONFIG.read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES / "*.yml")]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = targets
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    (port,) = free_ports(1)
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (folder / "prometheus.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client,
    ):
        try:
            yield client
        finally:
            process.terminate()


def _traffic(address: str, client: httpx.Client) -> None:
    """Records, transactions and a group, until Prometheus has seen its share of them."""
    end_s = time.monotonic() + LIMIT_S
    with (
        ottla.sync.Producer(address, transactional_id="t") as producer,
        ottla.sync.Consumer(address, group_id="g", offset_reset="earliest") as consumer,
    ):
        producer.init_transactions()
        consumer.subscribe(["orders"])
        rate = 'sum(rate(kafka_server_brokertopicmetrics_bytesout_total{topic="orders"}[10s])) > 0'
        while not (
            _is_up(client) and _asked(client, rate) and _asked(client, "kafka_consumergroup_lag")
        ):
            assert time.monotonic() < end_s, "Prometheus has not seen the traffic"
            producer.begin_transaction()
            producer.send("orders", b"value")
            producer.commit_transaction()
            if consumer.poll(200):
                consumer.commit()


def _is_up(client: httpx.Client) -> bool:
    try:
        return len(_asked(client, 'up{job="ottla"} == 1')) == 3
    except httpx.TransportError:
        return False


def _asked(client: httpx.Client, expression: str) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/query", params={"query": expression}).json()
    assert answer["status"] == "success", (expression, answer)
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def _panels() -> Iterator[tuple[str, str]]:
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text("utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                yield panel["title"], target["expr"]


def test_all_rules_are_loaded_and_in_order(prometheus: httpx.Client) -> None:
    """Each is evaluated, and none fires on a whole cluster."""
    end_s = time.monotonic() + LIMIT_S
    while True:
        groups = prometheus.get("/api/v1/rules").json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        if all(rule["health"] != "unknown" for rule in rules):
            break
        assert time.monotonic() < end_s, "Prometheus has not evaluated the rules"
        time.sleep(0.5)
    written = [
        rule["alert"]
        for file in RULES.glob("*.yml")
        for group in yaml.safe_load(file.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]

    assert sorted(rule["name"] for rule in rules) == sorted(written)
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []


@pytest.mark.parametrize(("title", "expression"), [*_panels()])
def test_a_panel_gets_data(prometheus: httpx.Client, title: str, expression: str) -> None:
    """Of every broker that it is about."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)

    assert _asked(prometheus, expression) != [], title

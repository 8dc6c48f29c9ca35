"""Dashboards and alert rules ask for metrics that brokers really serve."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import ottla
import ottla.sync
from ottla.protocol.ports import Address
from ottla.verbs import VERBS
from tests.support.broker_process import BrokerProcess
from tests.support.pages import read_page
from tests.support.ports import free_row
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
# A name in an expression; what Prometheus makes itself is not among them.
NAME = re.compile(r"\b(?:kafka|ottla|process|python)_[a-z0-9_]+\b")
# What widely used dashboards for kafka_exporter, and for Apache's JMX exporter with its usual
# rules, ask for. Names of the JVM are not among them: there is none.
KNOWN_ELSEWHERE = """
kafka_brokers kafka_broker_info kafka_topic_partitions kafka_topic_partition_current_offset
kafka_topic_partition_oldest_offset kafka_topic_partition_in_sync_replica
kafka_topic_partition_leader kafka_topic_partition_leader_is_preferred
kafka_topic_partition_replicas kafka_topic_partition_under_replicated_partition
kafka_consumergroup_current_offset kafka_consumergroup_current_offset_sum kafka_consumergroup_lag
kafka_consumergroup_lag_sum kafka_consumergroup_members
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount
kafka_controller_kafkacontroller_globaltopiccount
kafka_controller_kafkacontroller_globalpartitioncount
kafka_controller_kafkacontroller_preferredreplicaimbalancecount
kafka_server_replicamanager_leadercount kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underreplicatedpartitions
kafka_server_replicamanager_underminisrpartitioncount
kafka_server_replicamanager_atminisrpartitioncount
kafka_server_replicamanager_offlinereplicacount kafka_server_replicamanager_isrshrinks_total
kafka_server_replicamanager_isrexpands_total kafka_server_replicafetchermanager_maxlag
kafka_server_brokertopicmetrics_messagesin_total kafka_server_brokertopicmetrics_bytesin_total
kafka_server_brokertopicmetrics_bytesout_total
kafka_server_brokertopicmetrics_replicationbytesin_total
kafka_server_brokertopicmetrics_replicationbytesout_total
kafka_server_brokertopicmetrics_totalproducerequests_total
kafka_server_brokertopicmetrics_totalfetchrequests_total
kafka_network_requestmetrics_requests_total kafka_network_requestchannel_requestqueuesize
kafka_network_requestchannel_responsequeuesize kafka_log_log_size kafka_log_log_logendoffset
kafka_log_log_logstartoffset kafka_log_log_numlogsegments kafka_log_logcleaner_deadthreadcount
kafka_log_logcleaner_cleaner_recopy_percent kafka_log_logcleaner_max_buffer_utilization_percent
kafka_log_logcleaner_max_clean_time_secs kafka_log_logcleaner_max_compaction_delay_secs
kafka_log_logcleanermanager_max_dirty_percent kafka_log_logcleanermanager_time_since_last_run_ms
kafka_log_logcleanermanager_uncleanable_partitions_count
kafka_log_logcleanermanager_uncleanable_bytes
kafka_server_socket_server_metrics_connection_count kafka_server_kafkaserver_brokerstate
process_cpu_seconds_total process_resident_memory_bytes process_open_fds process_max_fds
process_start_time_seconds
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How many samples three brokers with traffic serve of each metric."""
    first = free_row(3)
    options = {"ottla.metrics.listener": f"127.0.0.1:{first}"}
    folder = tmp_path_factory.mktemp("watched") / "data"
    found: dict[str, int] = {}
    with BrokerProcess(folder, options=options, extra=("--brokers", "3", "--memory")) as brokers:
        _make_traffic(brokers.address)
        for port in range(first, first + 3):
            for line in read_page(Address("127.0.0.1", port), "/metrics").text.splitlines():
                # A family may have no sample yet, such as one of quotas before there are any.
                is_type = line.startswith("# TYPE ")
                if is_type or not line.startswith("#"):
                    name = line.split()[2] if is_type else re.split(r"[{ ]", line, maxsplit=1)[0]
                    found[name] = found.get(name, 0) + (not is_type)
    return found


def _make_traffic(address: str) -> None:
    with ottla.sync.Admin(address) as admin:
        admin.create_topic(ottla.NewTopic("orders", 3, 3))
    with ottla.sync.Producer(address, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"value")
        producer.commit_transaction()
    with ottla.sync.Consumer(address, group_id="g", offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.poll(500):
            pass
        consumer.commit()


def _expressions(value: Any) -> Iterator[str]:
    """Every expression in a dashboard or a file of rules."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("expr", "query", "definition") and isinstance(inner, str):
                yield inner
            else:
                yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def _read(file: Path) -> Any:
    text = file.read_text("utf-8")
    return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)


@pytest.mark.parametrize("file", [*DASHBOARDS, *RULES], ids=lambda file: file.name)
def test_brokers_serve_every_metric_that_is_asked_for(file: Path, served: dict[str, int]) -> None:
    """A panel for a name that no broker has stays empty, and an alert for one never comes."""
    expressions = list(_expressions(_read(file)))
    asked = {name for text in expressions for name in NAME.findall(text)}

    assert len(expressions) > 5
    assert sorted(asked - served.keys()) == []


def test_dashboards_of_others_find_their_metrics(served: dict[str, int]) -> None:
    """Operators keep the boards that they have."""
    assert [name for name in KNOWN_ELSEWHERE.split() if not served.get(name)] == []


def test_alerts_say_what_to_look_at() -> None:
    """Whom an alert wakes has to know where to begin, and its commands have to exist."""
    for file in RULES:
        for group in _read(file)["groups"]:
            for rule in group["rules"]:
                notes = rule["annotations"]
                assert {"summary", "runbook"} <= notes.keys(), rule["alert"]
                for verb in re.findall(r"\bottla ([a-z]+)", notes["runbook"]):
                    assert verb in VERBS, rule["alert"]


def test_panels_do_not_cover_each_other() -> None:
    """Grafana moves covered panels, so that no reader finds them where the file has them."""
    for file in DASHBOARDS:
        board = _read(file)
        cells: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            place = panel["gridPos"]
            own = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not own & cells, f"{file.name}: {panel['title']}"
            assert place["x"] + place["w"] <= 24, f"{file.name}: {panel['title']}"
            cells |= own
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.interop
def test_promtool_accepts_the_rules() -> None:
    """With Prometheus' own parser; Debian has it in the package prometheus."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt install prometheus")
    command = [promtool, "check", "rules", *map(str, RULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr

"""What each process of a machine is told, and the one page of figures of all."""

from __future__ import annotations

import json

from ottla.broker.processes.metrics_page import merged, status_lines
from ottla.broker.processes.plan import (
    ChildPlan,
    first_id,
    settings_of_process,
    users_as_parts,
)
from ottla.broker.server.first_users import FirstUser
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret

SETTINGS = {
    "listeners": "INSIDE://10.0.0.1:9092,OUTSIDE://:19092",
    "advertised.listeners": "INSIDE://kafka:9092,OUTSIDE://example.org:19092",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SSL",
    "log.dirs": "/data/a,/data/b",
    "ottla.metrics.listener": "127.0.0.1:9404",
    "ottla.listener.07": "127.0.0.1:9070",
}


def test_ports_ids_and_directories_count_up() -> None:
    """Each process has its own of what cannot be shared."""
    third = settings_of_process(SETTINGS, 3, 4, "machine")

    assert third["broker.id"] == "3"
    assert third["listeners"] == "INSIDE://10.0.0.1:9094,OUTSIDE://:19094"
    assert third["advertised.listeners"] == "INSIDE://kafka:9094,OUTSIDE://example.org:19094"
    assert third["log.dirs"] == "/data/a/3,/data/b/3"
    assert third["ottla.listener.07"] == "127.0.0.1:9072"
    assert third["listener.security.protocol.map"] == SETTINGS["listener.security.protocol.map"]


def test_only_the_supervisor_serves_figures() -> None:
    """One page, at the port that was asked for."""
    assert "ottla.metrics.listener" not in settings_of_process(SETTINGS, 1, 4, "machine")


def test_ids_count_from_the_given_one() -> None:
    """With ZooKeeper other machines have the ids below; directories count from 1."""
    settings = {**SETTINGS, "node.id": "41"}
    second = settings_of_process(settings, 2, 4, "machine")

    assert first_id(settings) == 41
    assert second["broker.id"] == "42"
    assert "node.id" not in second
    assert second["log.dirs"] == "/data/a/2,/data/b/2"


def test_brokers_of_a_machine_share_a_rack() -> None:
    """Replicas of a partition avoid a second place on it; a rack by name takes precedence."""
    assert settings_of_process(SETTINGS, 1, 4, "machine")["broker.rack"] == "machine"
    named = {**SETTINGS, "broker.rack": "r7"}
    assert settings_of_process(named, 1, 4, "machine")["broker.rack"] == "r7"


def test_limits_of_the_machine_are_divided() -> None:
    """Together the processes take what one would; what is no number, or no limit, stays."""
    settings = {
        **SETTINGS,
        "max.connections": "1000",
        "queued.max.requests": "3",
        "queued.max.request.bytes": "-1",
        "max.connection.creation.rate": "many",
        "num.io.threads": "8",
    }
    own = settings_of_process(settings, 2, 4, "machine")

    assert own["max.connections"] == "250"
    assert own["queued.max.requests"] == "1"
    assert own["queued.max.request.bytes"] == "-1"
    assert own["max.connection.creation.rate"] == "many"
    assert own["num.io.threads"] == "8"


def test_a_plan_crosses_to_the_process_with_its_users() -> None:
    """Passwords go through the channel, never through a command line."""
    users = [FirstUser("alice", SCRAM_MECHANISMS["SCRAM-SHA-512"], Secret("s3cret"), 8192)]
    plan = ChildPlan(
        7, {"a": "b"}, "/data/store.socket", 3, True, False, "text", users_as_parts(users)
    )

    there = ChildPlan(**json.loads(json.dumps(plan._asdict())))

    assert there == plan
    assert there.first_users() == users


PAGE = """# HELP a_total Things.
# TYPE a_total counter
a_total {value}
# HELP b Bytes, by topic.
# TYPE b gauge
b{{topic="x y",partition="0"}} {value}
"""


def test_a_family_stands_once_with_the_figures_of_all() -> None:
    """Prometheus refuses a second description of a name."""
    page = "".join(merged({11: PAGE.format(value=1), 12: PAGE.format(value=2)}))

    assert page == (
        "# HELP a_total Things.\n# TYPE a_total counter\n"
        'a_total{broker="11"} 1\na_total{broker="12"} 2\n'
        "# HELP b Bytes, by topic.\n# TYPE b gauge\n"
        'b{broker="11",topic="x y",partition="0"} 1\n'
        'b{broker="12",topic="x y",partition="0"} 2\n'
    )


def test_a_family_of_one_broker_is_kept() -> None:
    """Only the controller has some."""
    page = "".join(merged({1: PAGE.format(value=1), 2: "# HELP c Own.\n# TYPE c gauge\nc 5\n"}))

    assert 'c{broker="2"} 5\n' in page
    assert page.count("# TYPE") == 3


def test_a_page_without_brokers_is_empty() -> None:
    """While all of them start."""
    assert list(merged({})) == []


def test_brokers_that_do_not_serve_are_named() -> None:
    """On /readyz, for the person who asks why."""
    assert status_lines([(1, "serving"), (2, "starting")]) == ["broker 2 is starting\n"]

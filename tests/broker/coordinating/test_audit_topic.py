"""The audit log in the topic ``__audit``: real brokers, a dead leader, and who may write there."""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla import Cluster, ResourceType
from ottla.broker.coordinating import audit_topic
from ottla.broker.coordinating.audit_topic import BYTES_MAX, LINES_MAX
from ottla.broker.coordinating.internal_topics import flaw_of, is_closed_to
from ottla.broker.metrics.audit import audit_families
from ottla.broker.metrics.exposition import render
from ottla.broker.security.audit import Audit
from ottla.coordinator.metadata.image import AUDIT_TOPIC
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.sync import Admin, Consumer, Producer
from ottla.wire.errors import RequestRefused
from tests.broker.support.node import HandClock
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    AuditLines = Callable[[], list[dict[str, Any]]]

SETTINGS = {
    "ottla.audit.topic": "true",
    "ottla.audit.topic.replication.factor": "1",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    # All are super users, so each change of the cluster is an allowed one, which has a line.
    "super.users": "User:ANONYMOUS",
}
SECONDS_MAX = 30.0


@pytest.fixture(autouse=True)
def audit_lines(caplog: Any) -> Iterator[AuditLines]:
    """What the brokers of this process wrote to their log, which is complete."""
    with caplog.at_level(logging.INFO, "ottla.audit"):
        yield lambda: [
            json.loads(record.getMessage())
            for record in caplog.records
            if record.name == "ottla.audit" and record.levelno == logging.INFO
        ]


def _read(servers: str, last: str) -> list[dict[str, Any]]:
    """The lines of the topic as a client reads them, until there is one about a resource."""
    lines: list[dict[str, Any]] = []
    deadline_s = time.monotonic() + SECONDS_MAX
    with Consumer(servers, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(AUDIT_TOPIC, 0)])
        while all(line["resource"] != last for line in lines) and time.monotonic() < deadline_s:
            polled = consumer.poll(max_wait_ms=500)
            lines += [json.loads(record.value or b"") for record in polled]
    return lines


def _change(cluster: Cluster, numbers: range) -> float:
    """Make topics, each of which has a line; the longest that one of them took, seconds."""
    longest_s = 0.0
    for number in numbers:
        begun_s = time.monotonic()
        cluster.create_topic(f"t{number}", replication_factor=1)
        longest_s = max(longest_s, time.monotonic() - begun_s)
    return longest_s


def _made(lines: list[dict[str, Any]]) -> list[str]:
    """The topics that lines are about, each once: a repeated send may bring a line twice."""
    topics = [line["resource"] for line in lines if line["event"] == "change"]
    return list(dict.fromkeys(topic for topic in topics if topic.startswith("t")))


def _keys(lines: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(line["broker"], line["sequence"]) for line in lines}


def test_lines_of_all_brokers_are_in_the_topic(audit_lines: AuditLines) -> None:
    """A client that may read the topic sees what the brokers' own log has."""
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        _change(cluster, range(4))
        wanted = [f"t{number}" for number in range(4)]
        lines = _read(cluster.bootstrap_servers, wanted[-1])
        with Admin(cluster.bootstrap_servers) as admin:
            view = admin.describe_topic(AUDIT_TOPIC)
            configs = {
                one.name: one.value
                for one in admin.describe_configs(ResourceType.TOPIC, AUDIT_TOPIC)
            }

    assert _made(lines) == wanted
    assert _keys(lines) <= _keys(audit_lines())
    assert view.is_internal
    assert len(view.partitions) == 1
    assert configs["cleanup.policy"] == "delete"
    assert configs["retention.ms"] == str(30 * 24 * 3600 * 1000)


def test_a_dead_leader_of_the_topic_delays_no_request(
    audit_lines: AuditLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit into the queue meanwhile is left out of the topic, not of the log; when
    the leader is back, the topic goes on."""
    monkeypatch.setattr(audit_topic, "LINES_MAX", 4)
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        _change(cluster, range(1))
        _read(cluster.bootstrap_servers, "t0")
        leader = cluster.leader(AUDIT_TOPIC)
        cluster.faults.kill(leader)
        longest_s = _change(cluster, range(1, 13))
        cluster.faults.restart(leader)
        _read(cluster.bootstrap_servers, "t1")
        _change(cluster, range(13, 14))
        lines = _read(cluster.bootstrap_servers, "t13")

    wanted = [f"t{number}" for number in range(14)]
    assert _made(audit_lines()) == wanted
    # Far below the ten seconds that a send to a silent leader takes.
    assert longest_s < 8
    arrived = _made(lines)
    assert arrived == [topic for topic in wanted if topic in arrived]
    assert len(arrived) < len(wanted)
    assert set(arrived) >= {"t0", "t1", "t13"}


CLIENT_IDS = ("app", "__admin_client", "audit-1-to-1")


@pytest.mark.parametrize(("line", "fitting"), [("x", LINES_MAX), ("x" * 2**20, BYTES_MAX >> 20)])
async def test_what_does_not_fit_is_counted(line: str, fitting: int) -> None:
    """By number and by size; the count is a metric that an alarm can watch."""
    nothing: Any = None
    clock = HandClock()
    topic = audit_topic.AuditTopic(1, nothing, nothing, clock)
    for _ in range(fitting + 3):
        topic.add(line)

    assert (topic.waiting_count, topic.left_out_count) == (fitting, 3)
    page = "".join(render(audit_families(Audit(1, clock, print), topic)))
    assert "ottla_audit_topic_left_out_total 3\n" in page


def test_clients_do_not_write_the_topic() -> None:
    """Neither with a tool's client id nor with that of a broker: clients have another listener."""
    with Cluster(settings=SETTINGS) as cluster:
        _change(cluster, range(1))
        _read(cluster.bootstrap_servers, "t0")
        for client_id in CLIENT_IDS:
            with Producer(cluster.bootstrap_servers, client_id=client_id) as producer:
                delivery = producer.send(AUDIT_TOPIC, b"forged")
                with pytest.raises(RequestRefused) as refused:
                    delivery.result()
            assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION, client_id


async def test_on_the_brokers_own_listener_a_client_does_not_write_it_either() -> None:
    """Bob may write to each topic and is no broker; without a right he does not read it."""
    settings = sasl_settings(
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        super_users="User:alice",
        ottla_audit_topic="true",
    )
    settings["inter.broker.listener.name"] = "SASL_PLAINTEXT"
    settings["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
    jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    # The brokers are alice.
    own = 'required username="alice" password="alice-secret"'
    settings[jaas] = settings[jaas].replace("required", own)
    everything = AclPattern(AclResourceType.TOPIC, "*", PatternType.LITERAL)
    rule = AclRule(everything, "User:bob", "*", Operation.WRITE, Permission.ALLOW)
    async with running_broker(settings) as running:
        servers = str(running.broker.address)
        async with ottla.Admin(servers, security=_security("alice")) as alice:
            await alice.acls.create_acls([rule])
        for client_id in CLIENT_IDS:
            code = await _why_not_written(servers, client_id)
            assert code is ErrorCode.INVALID_TOPIC_EXCEPTION, client_id
        async with ottla.Consumer(servers, security=_security("bob")) as consumer:
            consumer.assign([TopicPartition(AUDIT_TOPIC, 0)])
            with pytest.raises(RequestRefused) as refused:
                await consumer.poll(SECONDS_MAX * 1000)
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _security(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


async def _why_not_written(servers: str, client_id: str) -> ErrorCode:
    async with ottla.Producer(servers, security=_security("bob"), client_id=client_id) as bob:
        delivery = await bob.send(AUDIT_TOPIC, b"forged")
        with pytest.raises(RequestRefused) as refused:
            await delivery
    return refused.value.code


def test_lines_about_the_topic_do_not_beget_lines(audit_lines: AuditLines) -> None:
    """An idle broker's topic does not grow by what was said of writing it."""
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        _change(cluster, range(1))
        _read(cluster.bootstrap_servers, "t0")
        count = len(audit_lines())
        time.sleep(1)
        assert len(audit_lines()) == count


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_the_topic_is_never_compacted(policy: str) -> None:
    """Compaction refuses records without keys: no line would get in any more."""
    assert flaw_of(AUDIT_TOPIC, {"cleanup.policy": policy}) is not None
    assert flaw_of(AUDIT_TOPIC, {"cleanup.policy": "delete"}) is None


def test_no_client_id_opens_the_topic() -> None:
    """Kafka's tools may write the offsets topic, where there are no access rules."""
    assert is_closed_to("__admin_client", AUDIT_TOPIC)
    assert not is_closed_to("__admin_client", "__consumer_offsets")

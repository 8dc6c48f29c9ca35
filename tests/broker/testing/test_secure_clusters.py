"""Tests of clusters whose clients log in: users, access rules, and what takes them away."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

import ottla
from ottla import sync
from ottla.protocol.acls import AclFilter
from ottla.wire.errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USERS = {"alice": "alice-pw", "bob": "bob-pw"}
RULES = [
    ottla.Acl("alice", "read,write,describe", topic="t", group="g"),
    ottla.Acl("bob", "read", topic="t", group="*"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """One broker with two users and rules for them."""
    with ottla.Cluster(security="sasl_ssl", users=USERS, acls=RULES) as made:
        made.create_topic("t")
        yield made


@pytest.fixture
def restored(cluster: ottla.Cluster) -> Iterator[ottla.Cluster]:
    """The cluster, whose users and rules a test may take away."""
    yield cluster
    cluster.faults.clear()


@pytest.mark.parametrize("security", ["sasl_ssl", "sasl_plaintext"])
def test_clients_of_each_library_log_in_with_their_settings(security: str) -> None:
    """What alice writes with one library bob reads with the others."""
    with ottla.Cluster(security=security, users=USERS, acls=RULES) as cluster:
        cluster.create_topic("t")
        value = security.encode()
        _confluent(cluster.client_settings("confluent", user="alice"), value)
        _kafka_python(cluster.client_settings("kafka-python", user="bob"), value)
        asyncio.run(_aiokafka(cluster.client_settings("aiokafka", user="bob"), value))
        with _consumer(cluster, "bob") as consumer:
            consumer.assign([ottla.TopicPartition("t", 0)])
            assert _first(consumer) == value


def _confluent(settings: dict[str, Any], value: bytes) -> None:
    producer = confluent_kafka.Producer(settings)
    producer.produce("t", value)
    assert producer.flush(60) == 0


def _kafka_python(settings: dict[str, Any], value: bytes) -> None:
    consumer = kafka.KafkaConsumer("t", auto_offset_reset="earliest", **settings)
    assert next(consumer).value == value
    consumer.close()


async def _aiokafka(settings: dict[str, Any], value: bytes) -> None:
    async with aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **settings) as consumer:
        assert (await consumer.getone()).value == value


def test_a_user_may_do_what_the_rules_say_and_nothing_else(cluster: ottla.Cluster) -> None:
    """Bob may read, so his produce is refused; the admin needs no rule."""
    with pytest.raises(ottla.ClientError, match="AUTHORIZATION_FAILED"):
        _produce(cluster, "bob")
    _produce(cluster, "admin")
    refused = AdminClient(cluster.client_settings("confluent", user="alice"))
    (future,) = refused.create_topics([confluent_kafka.admin.NewTopic("mine", 1, 1)]).values()
    with pytest.raises(confluent_kafka.KafkaException, match="AUTHORIZATION_FAILED"):
        future.result(30)


def test_a_deleted_user_is_out_until_it_is_restored(restored: ottla.Cluster) -> None:
    """Its open session ends and a login fails; a session of another user goes on."""
    settings = restored.client_settings(user="alice")
    servers = str(settings.pop("bootstrap.servers"))
    limits: dict[str, Any] = {"delivery_timeout_ms": 2_000, "request_timeout_ms": 1_000}
    with sync.Producer(servers, security=settings, **limits) as producer:
        producer.send("t", b"before").result()
        restored.faults.delete_user("alice")
        with pytest.raises(ottla.ClientError):
            _until_refused(lambda: producer.send("t", b"after").result())
    with pytest.raises(AuthenticationFailed):
        _produce(restored, "alice")
    _produce(restored, "admin")
    restored.faults.restore_access()
    _produce(restored, "alice")


def test_a_changed_password_counts_at_once_for_new_settings(restored: ottla.Cluster) -> None:
    """Settings from before are refused, those from afterwards are not."""
    before = restored.client_settings(user="alice")
    restored.faults.change_password("alice", "another")
    with pytest.raises(AuthenticationFailed):
        _produce_with(before)
    _produce(restored, "alice")
    restored.faults.clear()
    _produce_with(before)


def test_removed_rules_end_a_right_at_once(restored: ottla.Cluster) -> None:
    """Alice is logged in all the time; her next produce is refused, then allowed again."""
    _produce(restored, "alice")
    restored.faults.remove_acls("alice")
    with pytest.raises(ottla.ClientError, match="AUTHORIZATION_FAILED"):
        _produce(restored, "alice")
    with pytest.raises(ottla.ClusterError, match="no access rule about User:alice"):
        restored.faults.remove_acls("alice")
    restored.faults.restore_access()
    _produce(restored, "alice")


def test_three_brokers_in_processes_hear_of_each_change() -> None:
    """After the call every broker knows, so that a test need not wait."""
    arguments: dict[str, Any] = {"brokers": 3, "subprocess": True, "security": "sasl_ssl"}
    with ottla.Cluster(**arguments, users=USERS, acls=RULES) as cluster:
        cluster.create_topic("t", partitions=3)
        _produce(cluster, "alice")
        cluster.faults.kill(cluster.leader("t"))
        _produce(cluster, "alice")
        cluster.faults.remove_acls("alice")
        for number in range(3):
            with pytest.raises(ottla.ClientError, match="AUTHORIZATION_FAILED"):
                _produce(cluster, "alice", number)
        cluster.faults.expire_certificate()
        with pytest.raises(ottla.ClientError, match="expired"):
            _produce(cluster, "admin")
        cluster.faults.clear()
        _produce(cluster, "alice")


def test_an_expired_certificate_of_a_client_is_refused() -> None:
    """The broker closes the connection; a renewed certificate in the same file is taken."""
    with ottla.Cluster(security="mtls") as cluster:
        cluster.create_topic("t")
        _produce(cluster, None)
        cluster.faults.expire_client_certificate()
        with pytest.raises(ottla.ClientError, match="certificate"):
            _produce(cluster, None)
        cluster.faults.renew_certificates()
        _produce(cluster, None)


def test_programs_of_go_and_node_get_what_they_need_as_json(cluster: ottla.Cluster) -> None:
    """They read it from a file or the environment."""
    addresses = cluster.bootstrap_servers.split(",")
    node = json.loads(json.dumps(cluster.client_settings("kafkajs", user="bob")))
    assert node["brokers"] == addresses
    assert node["sasl"]["mechanism"] == "scram-sha-256"
    assert node["ssl"]["ca"].startswith("-----BEGIN CERTIFICATE-----")
    franz = json.loads(json.dumps(cluster.client_settings("franz-go", user="bob")))
    assert franz["SASL"] == {"Mechanism": "SCRAM-SHA-256", "User": "bob", "Pass": "bob-pw"}
    assert franz["DialTLSConfig"]["RootCAs"].endswith("ca.pem")
    sarama = json.loads(json.dumps(cluster.client_settings("sarama", user="bob")))
    assert sarama["Net.SASL.User"] == "bob"
    assert sarama["Net.TLS.Enable"] is True


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"users": USERS}, "users and acls need security='sasl_ssl'"),
        ({"acls": [], "security": "ssl"}, "users and acls need security='sasl_ssl'"),
        ({"security": "sasl_ssl", "users": {"admin": "x"}}, "the cluster's own"),
        ({"security": "sasl_ssl", "users": {"a": ""}}, "needs a password"),
        ({"security": "sasl_ssl", "acls": [ottla.Acl("a", "read")]}, "names a topic"),
        ({"security": "sasl_ssl", "acls": [ottla.Acl("a", "fly", topic="t")]}, "'fly'"),
        ({"security": "sasl_ssl", "acls": [ottla.Acl("a", "", topic="t")]}, "operations"),
        (
            {"security": "sasl_ssl", "users": USERS, "acls": [ottla.Acl("al", "read", topic="t")]},
            "the user 'al', which the cluster does not have",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_start(
    arguments: dict[str, Any], sentence: str
) -> None:
    """A cluster without the asked-for rules would test nothing."""
    with pytest.raises(ottla.ClusterError, match=sentence):
        ottla.Cluster(**arguments)


def test_faults_of_users_that_cannot_be_say_why(cluster: ottla.Cluster) -> None:
    """A mistyped name in a test must not pass for a refusal."""
    with pytest.raises(ottla.ClusterError, match="no user 'eve', only admin, alice, bob"):
        cluster.client_settings(user="eve")
    with pytest.raises(ottla.ClusterError, match="no user 'eve'"):
        cluster.faults.delete_user("eve")
    with pytest.raises(ottla.ClusterError, match="itself needs its user"):
        cluster.faults.delete_user("broker-1")
    with pytest.raises(ottla.ClusterError, match="security='mtls' only"):
        cluster.faults.expire_client_certificate()
    with ottla.Cluster() as plain:
        with pytest.raises(ottla.ClusterError, match="there is no user 'alice'"):
            plain.client_settings(user="alice")
        with pytest.raises(ottla.ClusterError, match="the cluster has no certificates"):
            plain.faults.expire_certificate()
        plain.faults.clear()


def test_without_rules_each_user_may_do_everything() -> None:
    """Then the cluster has no authorizer, and says so to clients that ask."""
    with ottla.Cluster(security="sasl_plaintext", users={"alice": "pw"}) as cluster:
        cluster.create_topic("t")
        _produce(cluster, "alice")
        assert asyncio.run(_rules(cluster)) == "SECURITY_DISABLED"


async def _rules(cluster: ottla.Cluster) -> str:
    settings = cluster.client_settings(user="alice")
    async with ottla.Admin(str(settings.pop("bootstrap.servers")), security=settings) as admin:
        try:
            await admin.acls.describe_acls(AclFilter())
        except ottla.RequestRefused as refused:
            return refused.code.name
    return "described"


def _produce(cluster: ottla.Cluster, user: str | None, partition: int = 0) -> None:
    _produce_with(cluster.client_settings(user=user), partition)


def _produce_with(settings: dict[str, Any], partition: int = 0) -> None:
    servers = str(settings["bootstrap.servers"])
    security = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
    with sync.Producer(servers, security=security) as producer:
        producer.send("t", b"x", partition=partition).result()


def _until_refused(send: Callable[[], object]) -> None:
    end_s = time.monotonic() + 30
    while time.monotonic() < end_s:
        send()


def _consumer(cluster: ottla.Cluster, user: str) -> sync.Consumer:
    settings = cluster.client_settings(user=user)
    servers = str(settings.pop("bootstrap.servers"))
    return sync.Consumer(servers, security=settings, offset_reset="earliest")


def _first(consumer: sync.Consumer) -> bytes | None:
    while True:
        for record in consumer.poll():
            return record.value

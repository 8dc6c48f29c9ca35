"""Settings as keywords and as Kafka's properties."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.client.settings.config import ClientConfig, ConsumerConfig, Isolation, ProducerConfig
from ottla.client.settings.kafka_names import ALIASES, KIBIBYTES, RANGES
from ottla.client.settings.keywords import (
    ClientSettings,
    ConsumerSettings,
    ProducerSettings,
    configured,
)
from ottla.wire.backoff import Backoff


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (ClientSettings, ClientConfig),
        (ProducerSettings, ProducerConfig),
        (ConsumerSettings, ConsumerConfig),
    ],
)
def test_every_field_can_be_given_as_a_keyword(settings: type[Any], config: type[Any]) -> None:
    """The keywords are written down a second time for type checkers, and must not drift."""
    declared = set(settings.__required_keys__ | settings.__optional_keys__)

    # Whom a connection has to reach: a broker says so for each other broker, no client does.
    assert declared == {field.name for field in fields(config)}
    assert not settings.__required_keys__


def test_keywords_change_a_configuration() -> None:
    """Both may be given; the keyword is nearer to the reader."""
    producer = Producer("127.0.0.1:9092", ProducerConfig(linger_ms=1, acks=1), linger_ms=20)

    assert (producer.config.linger_ms, producer.config.acks) == (20, 1)
    assert Admin("127.0.0.1:9092", client_id="me").config.client_id == "me"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("linger", "ProducerConfig has no setting 'linger'; did you mean 'linger_ms'?"),
        ("batch_size", "'batch_size' is called 'batch_bytes' here"),
        ("request_required_acks", "'request_required_acks' is called 'acks' here"),
        ("zzz", "ProducerConfig has no setting 'zzz'"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_nearest(name: str, sentence: str) -> None:
    """A mistyped setting that is taken silently is one that does not hold."""
    settings: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError) as raised:
        Producer("127.0.0.1:9092", **settings)

    assert str(raised.value) == sentence


def test_isolation_has_a_name() -> None:
    """An application should not have to import an enum for a single setting."""
    config = configured(ConsumerConfig(), {"isolation": "read_committed"})

    assert config.isolation is Isolation.READ_COMMITTED
    with pytest.raises(ValueError, match="did you mean 'read_committed'"):
        configured(ConsumerConfig(), {"isolation": "read_commited"})


@pytest.mark.parametrize("name", ["compression", "partitioner"])
def test_a_name_that_is_no_choice_is_refused_with_the_choices(name: str) -> None:
    """Found when the client is made and not with the first batch."""
    wrong: dict[str, Any] = {name: "sticki" if name == "partitioner" else "zsdt"}
    with pytest.raises(ValueError, match=rf"{name} is one of .*did you mean"):
        ProducerConfig(**wrong)


@pytest.mark.requirement("PRD-29")
@pytest.mark.parametrize(("value", "acks"), [("0", 0), ("1", 1), ("-1", -1), (-1, -1)])
def test_the_older_name_of_acks_is_accepted(value: object, acks: int) -> None:
    """Files of settings outlive the client they were written for."""
    config = ProducerConfig.from_properties({"request.required.acks": value})

    assert config.required_acks == acks


@pytest.mark.requirement("PRD-35")
@pytest.mark.parametrize(
    "conflict",
    [
        {"acks": "1"},
        {"request.required.acks": "0"},
        {"max.in.flight.requests.per.connection": "6"},
        {"max.inflight.requests.per.connection": "6"},
    ],
)
def test_idempotence_refuses_settings_that_break_it(conflict: dict[str, str]) -> None:
    """It forces acks=all and a number of batches in flight that a broker can still put in order:
    five since a broker remembers five, and one before."""
    forced = ProducerConfig.from_properties({"enable.idempotence": "true"})
    assert (forced.required_acks, forced.is_idempotent) == (-1, True)
    assert forced.in_flight_max <= 5
    one = ProducerConfig.from_properties(
        {"enable.idempotence": "true", "max.inflight.requests.per.connection": "1"}
    )
    assert one.in_flight_max == 1

    with pytest.raises(ValueError, match="idempotent"):
        ProducerConfig.from_properties({"enable.idempotence": "true", **conflict})


def test_a_whole_file_of_a_java_consumer_is_understood() -> None:
    """A user who moves from another client brings its settings along."""
    config = ConsumerConfig.from_properties(
        {
            "bootstrap.servers": "127.0.0.1:9092",
            "group.id": "g",
            "enable.auto.commit": "false",
            "auto.offset.reset": "smallest",
            "isolation.level": "read_committed",
            "fetch.max.wait.ms": "100",
            "reconnect.backoff.ms": "20",
            "reconnect.backoff.max.ms": "40",
            "send.buffer.bytes": "1000",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        }
    )

    assert (config.group_id, config.auto_commit, config.offset_reset) == ("g", False, "earliest")
    assert config.isolation is Isolation.READ_COMMITTED
    assert config.fetch_wait_ms == 100
    assert config.reconnect_backoff == Backoff(20, 40)
    assert config.socket.send_buffer_bytes == 1000
    assert config.assignors == ("range", "cooperative-sticky")
    assert config.key_deserializer is None
    assert callable(config.value_deserializer)


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"linger": "5"}, "no setting is called 'linger'; did you mean 'linger.ms'"),
        ({"linger.ms": "soon"}, "linger.ms is a whole number, not 'soon'"),
        ({"enable.idempotence": "yes"}, "enable.idempotence is true or false"),
        ({"acks": "1", "request.required.acks": "0"}, "are one setting, and differ"),
        ({"security.protocol": "KERBEROS"}, "PLAINTEXT and SSL"),
        ({"value.serializer": "a.StringSerialiser"}, "did you mean 'StringSerializer'"),
        ({"queue.buffering.max.kbytes": "8M"}, "queue.buffering.max.kbytes is a whole number"),
        ({"buffer.memory": "1025", "queue.buffering.max.kbytes": "1"}, "are one setting"),
        ({"cluster.id": "c"}, "no setting is called 'cluster.id'"),
        ({"node_id": "1"}, "no setting is called 'node_id'"),
    ],
)
def test_a_property_that_cannot_be_meant_is_refused(
    properties: dict[str, str], sentence: str
) -> None:
    """Each says which, and what may have been meant."""
    with pytest.raises(ValueError, match=sentence):
        ProducerConfig.from_properties(properties)


def test_sizes_of_librdkafka_are_converted() -> None:
    """It counts some of them in units of 1024 bytes."""
    producer = ProducerConfig.from_properties(
        {"queue.buffering.max.kbytes": "2048", "message.max.bytes": "500000"}
    )
    consumer = ConsumerConfig.from_properties({"queued.max.messages.kbytes": 4096})

    assert (producer.memory_bytes_max, producer.request_bytes_max) == (2 * 1024**2, 500_000)
    assert consumer.fetch_bytes_max == 4 * 1024**2


def test_a_program_that_stores_offsets_itself_is_told_what_to_do() -> None:
    """Ignored, the setting would have commits cover records that the program has not handled."""
    name = "enable.auto.offset.store"
    with pytest.raises(ValueError, match=f"{name}=false is not supported: .* give commit"):
        ConsumerConfig.from_properties({name: "false"})

    assert ConsumerConfig.from_properties({name: "true"}) == ConsumerConfig()


@pytest.mark.parametrize(
    "name", ["metric.reporters", "group.id", "retries", "message.send.max.retries"]
)
def test_a_property_without_meaning_here_warns(name: str) -> None:
    """The property is accepted with a warning and then ignored."""
    with pytest.warns(UserWarning, match=f"{name} has no effect"):
        config = ProducerConfig.from_properties({name: "1"})

    assert config == ProducerConfig()


def test_every_name_of_kafka_stands_for_a_field_that_there_is() -> None:
    """A field that is renamed must not leave its old name behind here."""
    known = {field.name for kind in (ProducerConfig, ConsumerConfig) for field in fields(kind)}

    assert {*ALIASES.values(), *(field for field, _ in RANGES.values())} <= known
    assert {*KIBIBYTES.values()} <= known


@pytest.mark.parametrize(
    ("config", "name", "value", "sentence"),
    [
        (ProducerConfig, "linger_ms", "5", "linger_ms is a number, not '5'"),
        (ProducerConfig, "in_flight_max", 1.5, "in_flight_max is a whole number, not 1.5"),
        (ProducerConfig, "batch_bytes", True, "batch_bytes is a whole number, not True"),
        (ProducerConfig, "idempotent", "yes", "idempotent is True, False or None, not 'yes'"),
        (ClientConfig, "client_id", 5, "client_id is a text, not 5"),
        (ConsumerConfig, "group_id", 5, "group_id is a text or None, not 5"),
        (ConsumerConfig, "assignors", "range", "assignors is a tuple, not 'range'"),
        (ConsumerConfig, "isolation", 1, "isolation is an Isolation, not 1"),
    ],
)
def test_a_setting_of_another_type_is_refused_by_name(
    config: type[ClientConfig], name: str, value: object, sentence: str
) -> None:
    """A level that only looks like one would let aborted records through, as 1 did."""
    settings: dict[str, Any] = {name: value}
    with pytest.raises(TypeError) as raised:
        config(**settings)

    assert str(raised.value) == sentence


def test_brokers_are_one_text() -> None:
    """Other clients take lists, and their users try that first."""
    wrong: Any = ["127.0.0.1:9092"]
    with pytest.raises(TypeError, match="'first:9092,second:9092', not"):
        Admin(wrong)


def test_both_of_librdkafkas_limits_of_fetched_bytes_may_be_set() -> None:
    """They are two settings there, with these defaults; an answer stays within both."""
    limits = {"fetch.max.bytes": "52428800", "queued.max.messages.kbytes": "65536"}

    assert ConsumerConfig.from_properties(limits).fetch_bytes_max == 52_428_800
    limits["queued.max.messages.kbytes"] = "1024"
    assert ConsumerConfig.from_properties(limits).fetch_bytes_max == 1024**2

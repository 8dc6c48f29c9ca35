"""Znode payloads against Kafka's own form, and against what other versions left behind."""

from __future__ import annotations

import json

import pytest

from ottla.coordinator.store import entities, paths
from ottla.coordinator.store.paths import (
    BrokerPayload,
    EndpointPayload,
    ProducerIdBlock,
    StatePayload,
    TopicPayload,
)
from ottla.protocol.ids import TopicPartition, uuid_from_text

TOPIC_ID = uuid_from_text("wfSjsg0eT1qLbH2On6Cxwg")


@pytest.mark.requirement("ZKT-03")
def test_a_registration_names_every_listener() -> None:
    """Kafka's tools find brokers by this payload."""
    payload = BrokerPayload(
        (
            EndpointPayload("INSIDE", "::1", 9093, "SASL_SSL"),
            EndpointPayload("OUTSIDE", "h", 9092, "PLAINTEXT"),
        ),
        "r1",
        1_700_000_000_000,
        5,
        4,
    )
    value = json.loads(paths.build_broker(payload))

    assert paths.parse_broker(paths.build_broker(payload)) == payload
    assert value == {
        "version": 5,
        "host": "h",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "1700000000000",
        "endpoints": ["INSIDE://[::1]:9093", "OUTSIDE://h:9092"],
        "listener_security_protocol_map": {"INSIDE": "SASL_SSL", "OUTSIDE": "PLAINTEXT"},
        "features": {},
        "rack": "r1",
        "broker_epoch": 5,
        "clean_stop_epoch": 4,
    }


@pytest.mark.requirement("ZKT-02")
def test_a_registration_of_an_old_broker_is_read() -> None:
    """During a rolling upgrade old and new registrations stand side by side."""
    found = paths.parse_broker(b'{"jmx_port":-1,"host":"node1","version":1,"port":9092}')

    assert found == BrokerPayload((EndpointPayload("PLAINTEXT", "node1", 9092, "PLAINTEXT"),))


@pytest.mark.requirement("ZKT-08", "ZKT-09")
def test_an_assignment_keeps_ids_and_order_of_replicas() -> None:
    """The first replica is the preferred leader; sorting would move all leaders."""
    payload = TopicPayload(TOPIC_ID, {0: (2, 3, 1), 10: (3, 1, 2), 2: (1, 2, 3)})
    value = json.loads(paths.build_topic(payload))
    found = paths.parse_topic(paths.build_topic(payload))

    assert found == payload
    assert value["partitions"] == {"0": [2, 3, 1], "2": [1, 2, 3], "10": [3, 1, 2]}
    assert (value["version"], value["topic_id"]) == (3, "wfSjsg0eT1qLbH2On6Cxwg")


def test_an_assignment_without_id_is_read() -> None:
    """Topics made by Kafka before 2.8 have none."""
    found = paths.parse_topic(b'{"version":1,"partitions":{"12":[6],"8":[2]}}')

    assert found == TopicPayload(None, {8: (2,), 12: (6,)})


@pytest.mark.requirement("ZKT-11")
def test_a_partition_state_has_the_documented_form() -> None:
    """What Kafka does not know is absent while it has nothing to say."""
    text = b'{"controller_epoch":29,"leader":2,"version":1,"leader_epoch":48,"isr":[2]}'
    payload = StatePayload(2, 48, (2,), 29)

    assert paths.parse_state(text) == payload
    assert json.loads(paths.build_state(payload)) == json.loads(text)
    full = StatePayload(-1, 49, (), 29, True, (3, 1))
    assert paths.parse_state(paths.build_state(full)) == full


@pytest.mark.requirement("ZKT-12", "ZKT-13", "ZKT-23")
def test_small_payloads_have_kafkas_form() -> None:
    """Numbers are strings where Kafka writes strings."""
    block = ProducerIdBlock(1, 1000, 1999)

    assert json.loads(paths.build_cluster_id("abc")) == {"version": "1", "id": "abc"}
    assert paths.build_controller(8, 5) == b'{"version":1,"brokerid":8,"timestamp":"5"}'
    assert paths.parse_controller(b'{"version":1,"brokerid":8}') == 8
    assert paths.build_number(3) == b"3"
    assert json.loads(paths.build_producer_id_block(block)) == {
        "version": 1,
        "broker": 1,
        "block_start": "1000",
        "block_end": "1999",
    }
    assert paths.parse_producer_id_block(paths.build_producer_id_block(block)) == block
    assert paths.build_config({"a": "1"}) == b'{"version":1,"config":{"a":"1"}}'


@pytest.mark.requirement("ZKT-14")
def test_partition_lists_are_read_back() -> None:
    """ISR notifications and preferred elections share one form."""
    listed = [TopicPartition("topic1", 8), TopicPartition("topic2", 16)]

    assert paths.parse_partition_list(paths.build_partition_list(listed)) == listed


def test_config_changes_of_both_versions_name_the_entity() -> None:
    """Version 1 is still written by old tools."""
    new = paths.parse_config_change(paths.build_config_change("groups", "a b*~/c"))
    old = paths.parse_config_change(b'{"version":1,"entity_type":"topics","entity_name":"t"}')

    assert new == ("groups", "a b*~/c")
    assert old == ("topics", "t")
    assert paths.config("groups", "a b*~/c") == "/config/groups/a%20b%2A%7E%2Fc"
    assert paths.config("brokers", "<default>") == "/config/brokers/<default>"


@pytest.mark.parametrize("name", [".", "..", "...", "a.b", "%2E"])
def test_groups_of_any_name_have_a_znode(name: str) -> None:
    """A path may not hold the names that mean a directory itself, or the one above it."""
    path = paths.config("groups", name)

    assert path.rpartition("/")[2] not in (".", "..")
    assert entities.decode("groups", path.removeprefix("/config/groups/")) == name


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{}", b"\xff", b'{"partitions":3,"isr":1,"leader":"x"}', b"{"],
)
def test_an_unusable_payload_is_none_and_never_an_exception(data: bytes) -> None:
    """One bad znode must not stop the controller for all others (C-12)."""
    parsed = (
        paths.parse_broker(data),
        paths.parse_topic(data),
        paths.parse_state(data),
        paths.parse_cluster_id(data),
        paths.parse_controller(data),
        paths.parse_number(data),
        paths.parse_config(data),
        paths.parse_config_change(data),
        paths.parse_partition_list(data),
        paths.parse_producer_id_block(data),
        paths.parse_incarnation(data),
    )

    assert parsed == (None,) * 11


def test_permanent_paths_come_after_their_parents() -> None:
    """The store is initialised in this order."""
    made = {""}
    for path in paths.PERMANENT_PATHS:
        assert path.rpartition("/")[0] in made
        made.add(path)


def test_a_failed_directory_is_announced_in_kafkas_words() -> None:
    """KIP-112; other events and malformed ones are ignored."""
    data = paths.build_log_dir_event(3)

    assert json.loads(data) == {"version": 1, "broker": 3, "event": 1}
    assert paths.parse_log_dir_event(data) == 3
    assert paths.parse_log_dir_event(b'{"version":1,"broker":3,"event":2}') is None
    assert paths.parse_log_dir_event(b"not JSON") is None

"""Quotas as requests name them: what Kafka takes is taken, and the rest refused with its code."""

from __future__ import annotations

import math

import pytest

from ottla.broker.quotas.changes import (
    FilterPart,
    NamedEntity,
    QuotaChange,
    apply_changes,
    check_changes,
    check_filter,
    matches,
    named_entity,
    quotas_of,
    stored_entity,
)
from ottla.coordinator.metadata.image import Entity
from ottla.protocol.errors import ErrorCode, KafkaError

USER = Entity("users", "u")
IP = Entity("ips", "10.0.0.1")


@pytest.mark.parametrize(
    ("named", "stored"),
    [
        ((("user", "a b"),), Entity("users", "a%20b")),
        ((("user", None),), Entity("users", "<default>")),
        ((("client-id", "c"),), Entity("clients", "c")),
        ((("user", "u"), ("client-id", None)), Entity("users", "u/clients/<default>")),
        ((("ip", "10.0.0.1"),), Entity("ips", "10.0.0.1")),
        ((("ip", None),), Entity("ips", "<default>")),
        ((("ip", "::1"),), Entity("ips", "%3A%3A1")),
    ],
)
def test_entities_have_their_place_in_the_store(named: NamedEntity, stored: Entity) -> None:
    """And are named the same when they are described."""
    assert stored_entity(named) == stored
    assert named_entity(stored) == named


def test_an_address_has_one_spelling() -> None:
    """The quota would not count for a peer whose address is spelled otherwise."""
    assert stored_entity((("ip", "0:0:0:0:0:0:0:1"),)) == Entity("ips", "%3A%3A1")


@pytest.mark.parametrize(
    "named",
    [
        (),
        (("user", ""),),
        (("group", "g"),),
        (("user", "u"), ("user", "v")),
        (("user", "u"), ("ip", "10.0.0.1")),
        (("ip", "example.org"),),
    ],
)
def test_entities_that_cannot_have_quotas_are_refused(named: NamedEntity) -> None:
    """With the code that Kafka has for them."""
    with pytest.raises(KafkaError) as refused:
        stored_entity(named)

    assert refused.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER, "producer_byte_rate", 0.0),
        (USER, "producer_byte_rate", -1.0),
        (USER, "producer_byte_rate", 1.5),
        (USER, "producer_byte_rate", 1e30),
        (USER, "request_percentage", math.nan),
        (USER, "request_percentage", math.inf),
        (USER, "connection_creation_rate", 1.0),
        (USER, "SCRAM-SHA-256", 1.0),
        (IP, "producer_byte_rate", 1.0),
        (IP, "connection_creation_rate", 2.0**31),
    ],
)
def test_values_out_of_range_are_refused(entity: Entity, key: str, value: float) -> None:
    """A quota of addresses is none of users, and a credential is no quota."""
    with pytest.raises(KafkaError) as refused:
        check_changes(entity, [QuotaChange(key, value)])

    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_key_may_occur_once() -> None:
    """Which of two values is meant is unknown."""
    with pytest.raises(KafkaError):
        check_changes(USER, [QuotaChange("producer_byte_rate", value) for value in (1.0, 2.0)])


def test_values_are_written_as_kafka_does_and_credentials_stay() -> None:
    """Whole numbers without a point, percentages with one."""
    current = {"SCRAM-SHA-256": "salt=x", "consumer_byte_rate": "3"}
    changes = [
        QuotaChange("producer_byte_rate", 1048576.0),
        QuotaChange("request_percentage", 50.0),
        QuotaChange("consumer_byte_rate", None),
        QuotaChange("controller_mutation_rate", None),
    ]
    check_changes(USER, changes)
    changed = apply_changes(current, changes)

    assert changed == {
        "SCRAM-SHA-256": "salt=x",
        "producer_byte_rate": "1048576",
        "request_percentage": "50.0",
    }
    assert quotas_of(USER, changed) == {"producer_byte_rate": 1048576.0, "request_percentage": 50.0}


def test_the_largest_rate_is_a_long() -> None:
    """As a float 2^63 - 1 is 2^63, which Kafka could not read."""
    assert apply_changes({}, [QuotaChange("producer_byte_rate", 2.0**63)]) == {
        "producer_byte_rate": str(2**63 - 1)
    }


PAIR: NamedEntity = (("user", "u"), ("client-id", None))


@pytest.mark.parametrize(
    ("parts", "strict", "found"),
    [
        ([], False, True),
        ([], True, False),
        ([FilterPart("user", 0, "u")], False, True),
        ([FilterPart("user", 0, "u")], True, False),
        ([FilterPart("user", 0, "v")], False, False),
        ([FilterPart("user", 1, None)], False, False),
        ([FilterPart("client-id", 1, None)], False, True),
        ([FilterPart("client-id", 2, None), FilterPart("user", 2, None)], True, True),
        ([FilterPart("ip", 2, None)], False, False),
    ],
)
def test_filters_find_what_kafkas_find(parts: list[FilterPart], strict: bool, found: bool) -> None:
    """Exact, default, any; strict leaves out entities with further types."""
    check_filter(parts)

    assert matches(PAIR, parts, strict=strict) is found


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([FilterPart("", 2, None)], ErrorCode.INVALID_REQUEST),
        ([FilterPart("group", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([FilterPart("user", 2, None)] * 2, ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", 1, "u")], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([FilterPart("user", 2, None), FilterPart("ip", 2, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense_are_refused(parts: list[FilterPart], code: ErrorCode) -> None:
    """An empty answer would say that there are no quotas."""
    with pytest.raises(KafkaError) as refused:
        check_filter(parts)

    assert refused.value.code == code

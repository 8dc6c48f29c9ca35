"""Subscriptions and assignments of the classic consumer protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.consumer_protocol import (
    ConsumerAssignment,
    ConsumerSubscription,
    OwnedPartitions,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from ottla.protocol.errors import RemoteProtocolError

SUBSCRIPTION_TO_T1 = bytes.fromhex("00000000000100027431ffffffff")
ASSIGNMENT_OF_T1 = bytes.fromhex("00000000000100027431000000020000000000000001ffffffff")


def test_the_bytes_are_those_that_clients_write() -> None:
    """Every client of a mixed group must read what any other has written."""
    subscription = ConsumerSubscription(["t1"])
    assignment = ConsumerAssignment([OwnedPartitions("t1", [0, 1])])

    assert write_subscription(subscription, 0) == SUBSCRIPTION_TO_T1
    assert write_assignment(assignment, 0) == ASSIGNMENT_OF_T1
    assert read_subscription(SUBSCRIPTION_TO_T1) == (subscription, 0)
    assert read_assignment(ASSIGNMENT_OF_T1) == (assignment, 0)


def test_a_version_from_the_future_reads_like_the_last_known_one() -> None:
    """Fields are only ever added at the end."""
    subscription = ConsumerSubscription(
        ["t1"], b"data", [OwnedPartitions("t1", [3])], generation_id=7, rack_id="r"
    )
    known = write_subscription(subscription, 3)

    future = (9).to_bytes(2) + known[2:] + b"more"

    assert read_subscription(future) == (subscription, 9)


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", SUBSCRIPTION_TO_T1[:-1]])
def test_what_is_cut_off_is_refused(data: bytes) -> None:
    """The broker reads these bytes for a description; it must not trust them."""
    with pytest.raises(RemoteProtocolError):
        read_subscription(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Applications may put what they like into the bytes of their own protocols."""
    for read in (read_subscription, read_assignment):
        try:
            _, version = read(data)
        except RemoteProtocolError:
            continue
        assert version == int.from_bytes(data[:2])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_subscription_may_end_after_the_fields_of_version_0(version: int) -> None:
    """Some clients say a later version and leave out what it added; Kafka reads them."""
    data = version.to_bytes(2) + SUBSCRIPTION_TO_T1[2:]

    subscription, read_version = read_subscription(data)

    assert (subscription.topics, subscription.owned_partitions) == (["t1"], [])
    assert read_version == version
    for broken in (data[:-1], data + b"\x00"):
        with pytest.raises(RemoteProtocolError):
            read_subscription(broken)

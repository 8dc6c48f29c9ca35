"""Ids: their text forms and the reserved ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.ids import (
    ONE_UUID,
    ZERO_UUID,
    TopicPartition,
    is_usable_uuid,
    uuid_from_text,
    uuid_to_text,
)


def test_a_uuid_has_kafkas_text() -> None:
    """Znodes and partition.metadata carry this form, and Kafka's tools read it."""
    uuid = bytes.fromhex("c1f4a3b20d1e4f5a8b6c7d8e9fa0b1c2")

    assert uuid_to_text(uuid) == "wfSjsg0eT1qLbH2On6Cxwg"
    assert uuid_from_text("wfSjsg0eT1qLbH2On6Cxwg") == uuid


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_survives_its_text(uuid: bytes) -> None:
    """It is stored as text and compared as bytes."""
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wfSjsg0eT1qLbH2On6Cxw",
        "wfSjsg0eT1qLbH2On6Cxwg==",
        "wfSjsg0eT1qLbH2On6Cxwh",
        "wfSjsg0eT1qLbH2On6Cxwg" * 2,
        "wfSjsg0eT1q bH2On6Cxwg",
        "ü" * 22,
    ],
)
def test_any_other_text_is_refused(text: str) -> None:
    """Two texts for one id would make equal ids look different."""
    with pytest.raises(ValueError, match="not a Kafka uuid"):
        uuid_from_text(text)


def test_reserved_and_dashed_ids_are_not_given_to_topics() -> None:
    """Zero means none, one is Kafka's metadata topic, a dash reads as an option in shells."""
    dashed = uuid_from_text("-" + "A" * 21)

    assert not is_usable_uuid(ZERO_UUID)
    assert not is_usable_uuid(ONE_UUID)
    assert not is_usable_uuid(dashed)
    assert is_usable_uuid(bytes(range(16)))


def test_a_partition_prints_as_its_directory_is_called() -> None:
    """Logs and directories use the same name."""
    assert str(TopicPartition("orders", 7)) == "orders-7"

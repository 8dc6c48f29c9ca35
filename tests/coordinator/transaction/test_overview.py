"""Transactions from outside."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.effects import Moment
from ottla.coordinator.transaction.overview import check_listing
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import TopicData
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordinator.transaction.scene import (
    A0,
    A1,
    B0,
    FIRST_PRODUCER_ID,
    ID,
    TIMEOUT_MS,
    WALL_MS,
    Scene,
    begun,
)


def listed(scene: Scene, **filters: Any) -> list[tuple[str, int, str]]:
    request = ListTransactionsRequest(**filters)
    return [
        (found.transactional_id, found.producer_id, found.transaction_state)
        for found in scene.shard.listing(request, scene.moment)
        if found is not None
    ]


def several() -> Scene:
    """An id that is open and two that are not."""
    scene, _ = begun(A0)
    for name in ("other-1", "other-2"):
        scene.init(transactional_id=name)
    scene.settle()
    return scene


OPEN = (ID, FIRST_PRODUCER_ID, "Ongoing")
OTHERS = [
    ("other-1", FIRST_PRODUCER_ID + 1, "Empty"),
    ("other-2", FIRST_PRODUCER_ID + 2, "Empty"),
]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [OPEN, *OTHERS]),
        ({"state_filters": ["Ongoing"]}, [OPEN]),
        ({"state_filters": ["Empty", "PrepareCommit"]}, OTHERS),
        ({"state_filters": ["ongoing"]}, []),
        ({"producer_id_filters": [FIRST_PRODUCER_ID + 2, 7]}, OTHERS[1:]),
        ({"transactional_id_pattern": "other-.*"}, OTHERS),
        ({"transactional_id_pattern": "other"}, []),
        ({"transactional_id_pattern": ""}, [OPEN, *OTHERS]),
        ({"duration_filter": 0}, []),
    ],
)
def test_the_filters_are_all_that_is_asked_for(
    filters: dict[str, Any], expected: list[tuple[str, int, str]]
) -> None:
    """An operator looks for one hanging transaction among thousands (KIP-664)."""
    assert listed(several(), **filters) == expected


def test_age_counts_from_the_first_partition() -> None:
    """Older than, not as old as; what has not begun has no age (KIP-994)."""
    scene = several()
    scene.wall_ms += 5_000

    assert listed(scene, duration_filter=4_999) == [OPEN]
    assert listed(scene, duration_filter=5_000) == []


def test_a_listing_sees_what_changes_under_it() -> None:
    """The shard continues to work between two items."""
    scene = several()
    found = scene.shard.listing(ListTransactionsRequest(), Moment(0.0, WALL_MS))
    first = next(found)
    del scene.shard.scope.transactions["other-1"]

    assert first is not None
    assert next(found) is None
    assert next(found) is not None


def test_an_id_is_listed_once_its_first_record_is_committed() -> None:
    """Before that, no client has its producer id."""
    scene = Scene()
    scene.init()
    scene.give()
    before = listed(scene)
    scene.settle()

    assert before == []
    assert listed(scene) == [(ID, FIRST_PRODUCER_ID, "Empty")]


def test_unknown_state_filters_are_reported() -> None:
    """An unknown state is a mistake of the caller, or comes from a newer tool."""
    response = check_listing(ListTransactionsRequest(["Empty", "Lost", "ongoing"]))

    assert response.unknown_state_filters == ["Lost", "ongoing"]
    assert response.error_code == ErrorCode.NONE


def test_a_pattern_that_is_none_is_an_error() -> None:
    """The error comes without a scan of all ids."""
    response = check_listing(ListTransactionsRequest(transactional_id_pattern="("))

    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_is_described_with_its_partitions() -> None:
    """What DescribeProducers finds open on a partition is looked up here."""
    scene, producer = begun(B0, A1, A0)
    found = scene.describe()

    assert found.error_code == ErrorCode.NONE
    assert (found.transactional_id, found.transaction_state) == (ID, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == producer
    assert found.transaction_timeout_ms == TIMEOUT_MS
    assert found.transaction_start_time_ms == WALL_MS
    assert found.topics == [TopicData("a", [0, 1]), TopicData("b", [0])]


@pytest.mark.parametrize(
    ("transactional_id", "expected"),
    [("other", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND), ("", ErrorCode.INVALID_REQUEST)],
)
def test_what_is_not_known_is_not_described(transactional_id: str, expected: ErrorCode) -> None:
    """Each id has its own error."""
    scene, _ = begun()
    found = scene.describe(transactional_id)

    assert (found.error_code, found.transactional_id) == (expected, transactional_id)

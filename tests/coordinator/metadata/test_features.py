"""Levels of features: where a cluster starts, and which changes an administrator may make."""

from __future__ import annotations

import pytest

from ottla.coordinator.metadata.features import (
    SUPPORTED,
    TRANSACTION_VERSION,
    FeatureUpdate,
    Levels,
    UpgradeType,
    first_levels,
    judge_update,
)
from ottla.coordinator.store import znode
from ottla.protocol.errors import ErrorCode

OLD = {TRANSACTION_VERSION: Levels(0, 1)}
ALL = {1: SUPPORTED, 2: SUPPORTED}


def test_a_cluster_starts_at_what_all_of_its_brokers_support() -> None:
    """A broker that knows less would be asked what it cannot do."""
    assert first_levels([SUPPORTED, SUPPORTED]) == {TRANSACTION_VERSION: 2}
    assert first_levels([SUPPORTED, OLD]) == {TRANSACTION_VERSION: 1}
    assert first_levels([SUPPORTED, {}]) == {}


@pytest.mark.parametrize(
    ("level", "kind", "current"),
    [
        (2, UpgradeType.UPGRADE, 0),
        (2, UpgradeType.UPGRADE, 2),
        (1, UpgradeType.SAFE_DOWNGRADE, 2),
        (0, UpgradeType.UNSAFE_DOWNGRADE, 2),
    ],
)
def test_allowed_changes(level: int, kind: UpgradeType, current: int) -> None:
    """Up without a word, down by name, and to what is there already."""
    update = FeatureUpdate(TRANSACTION_VERSION, level, kind)

    assert judge_update(update, current, ALL) is None


@pytest.mark.parametrize(
    ("update", "current"),
    [
        (FeatureUpdate(TRANSACTION_VERSION, 3), 2),
        (FeatureUpdate(TRANSACTION_VERSION, -1, UpgradeType.UNSAFE_DOWNGRADE), 2),
        (FeatureUpdate(TRANSACTION_VERSION, 1), 2),
        (FeatureUpdate(TRANSACTION_VERSION, 2, UpgradeType.SAFE_DOWNGRADE), 1),
        (FeatureUpdate(TRANSACTION_VERSION, 2, 0), 1),
        (FeatureUpdate("no.such.version", 1), 0),
    ],
)
def test_refused_changes(update: FeatureUpdate, current: int) -> None:
    """A downgrade by mistake would take away from clients what they rely on."""
    refusal = judge_update(update, current, ALL)

    assert refusal is not None
    assert refusal.error_code is ErrorCode.INVALID_UPDATE_VERSION


def test_a_level_that_one_broker_does_not_support_is_refused_by_its_name() -> None:
    """The administrator has to know which one to upgrade."""
    refusal = judge_update(FeatureUpdate(TRANSACTION_VERSION, 2), 1, {**ALL, 7: OLD, 8: {}})

    assert refusal is not None
    assert "broker 7 supports levels 0 to 1" in refusal.message
    nameless = judge_update(FeatureUpdate("", 2), 1, ALL)
    assert nameless is not None
    assert nameless.error_code is ErrorCode.INVALID_UPDATE_VERSION


def test_the_znode_is_kafkas() -> None:
    """Kafka's tools and brokers read it; a feature of level 0 is not in it."""
    data = znode.build_levels({TRANSACTION_VERSION: 2, "off": 0})

    assert data == (
        b'{"version":2,"status":1,"features":{"transaction.version":{"max_version_level":2}}}'
    )
    assert znode.parse_levels(data) == {TRANSACTION_VERSION: 2}
    first = (
        b'{"version":1,"status":%d,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
    )
    assert znode.parse_levels(first % 1) == {"f": 3}
    assert znode.parse_levels(first % 0) == {}
    assert znode.parse_levels(b'{"version":2,"status":1,"features":[]}') is None
    assert znode.parse_levels(b"") is None


def test_what_a_broker_supports_stands_in_its_registration() -> None:
    """The controller judges by it, also when the broker is down-level."""
    ranges = znode.build_ranges(SUPPORTED)

    assert ranges == {TRANSACTION_VERSION: {"min_version": 0, "max_version": 2}}
    assert znode.ranges_of(ranges) == SUPPORTED

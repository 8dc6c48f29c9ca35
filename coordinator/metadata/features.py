"""Features of the cluster: which levels this code supports, and which changes are allowed.

A feature's finalized level is what the whole cluster may rely on (KIP-584); level 0 is none. There
is one feature: ``transaction.version``, 2 of which raises a producer's epoch with each transaction
(KIP-890). Clients read it in ApiVersions, and speak the older protocol below 2.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TRANSACTION_VERSION = "transaction.version"


class Levels(NamedTuple):
    """A range of levels, both ends included."""

    first: int
    last: int


SUPPORTED: Mapping[str, Levels] = MappingProxyType({TRANSACTION_VERSION: Levels(0, 2)})
_NO_LEVELS = Levels(0, 0)


class Finalized(NamedTuple):
    """What is finalized, without features of level 0. ``epoch`` grows with each change; -1 when
    nothing is known."""

    levels: Mapping[str, int] = MappingProxyType({})
    epoch: int = -1


class UpgradeType(IntEnum):
    """What a change may be; numbers of the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A client requests a feature at that level. ``upgrade_type`` may be an unknown number."""

    feature: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class FeatureRefusal(NamedTuple):
    """Why a change is not allowed."""

    error_code: ErrorCode
    message: str


def first_levels(brokers: Iterable[Mapping[str, Levels]]) -> dict[str, int]:
    """The highest levels that all of these brokers support; where a cluster starts."""
    supports = [SUPPORTED, *brokers]
    found = {
        name: min(support.get(name, _NO_LEVELS).last for support in supports) for name in SUPPORTED
    }
    return {name: level for name, level in found.items() if level > 0}


def judge_update(
    update: FeatureUpdate, current_level: int, brokers: Mapping[int, Mapping[str, Levels]]
) -> FeatureRefusal | None:
    """Whether a feature may be brought to a level; ``brokers`` tells what each of them supports."""
    name, level, upgrade_type = update
    if not name:
        return _invalid(update, "a feature has a name")
    if upgrade_type not in list(UpgradeType):
        return _invalid(update, "the kind of change is unknown")
    if name not in SUPPORTED:
        return _invalid(update, "this broker does not know the feature")
    for who, levels in (("this broker", SUPPORTED[name]), *_supports(name, brokers)):
        if not levels.first <= level <= levels.last:
            return _invalid(update, f"{who} supports levels {levels.first} to {levels.last}")
    if level < current_level and upgrade_type == UpgradeType.UPGRADE:
        return _invalid(update, f"that is below level {current_level}, and no downgrade was asked")
    if level > current_level and upgrade_type != UpgradeType.UPGRADE:
        return _invalid(update, f"that is above level {current_level}, which is no downgrade")
    return None


def _supports(
    name: str, brokers: Mapping[int, Mapping[str, Levels]]
) -> Iterable[tuple[str, Levels]]:
    for node_id, support in sorted(brokers.items()):
        yield f"broker {node_id}", support.get(name, _NO_LEVELS)


def _invalid(update: FeatureUpdate, reason: str) -> FeatureRefusal:
    return FeatureRefusal(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"{update.feature} cannot be brought to level {update.level}: {reason}",
    )

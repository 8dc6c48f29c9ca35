"""Quotas as requests name them: checked, changed and found (KIP-546). Pure.

A request names an entity by the types user, client-id and ip with a name each, None for the
default. The store has them under users, clients and ips with quoted names.
"""

from __future__ import annotations

from ipaddress import ip_address
from math import isfinite
from typing import TYPE_CHECKING

from ottla.broker.quotas.table import CLIENT_KINDS, CONNECTION, CONSUME, PRODUCE
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import entities
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
_TYPES = (USER, CLIENT_ID, IP)
_LONG_MAX = (1 << 63) - 1
_INT_MAX = (1 << 31) - 1
# Whole numbers, and how large they may be.
_WHOLE = {PRODUCE: _LONG_MAX, CONSUME: _LONG_MAX, CONNECTION: _INT_MAX}
_FRACTION_MAX = 1e-6

MATCH_EXACT = 0
MATCH_DEFAULT = 1
MATCH_SPECIFIED = 2

NamedEntity = tuple[tuple[str, str | None], ...]
"""Entity types with a name each, None for the default."""


class QuotaChange(NamedTuple):
    """One quota to be set, or removed with None."""

    key: str
    value: float | None


class FilterPart(NamedTuple):
    """One component of a DescribeClientQuotas filter: entity type, kind of match, and name."""

    entity_type: str
    match_type: int
    match: str | None


def stored_entity(named: NamedEntity) -> Entity:
    """Return the entity in the form of the store. Raises KafkaError."""
    parts = dict(named)
    if not named:
        raise _refuse("the quota entity is empty: name a user, a client-id or an ip")
    if len(parts) < len(named):
        raise _refuse("the quota entity has one type more than once")
    for entity_type, name in named:
        if entity_type not in _TYPES:
            raise _refuse(f"there are no quotas for entities of type {entity_type!r}")
        if name == "":
            raise _refuse(f"the name of the {entity_type} is empty")
    if IP in parts:
        if len(parts) > 1:
            raise _refuse("an ip cannot be combined with a user or a client-id")
        return Entity(entities.IPS, entities.quoted(_address(parts[IP])))
    if USER not in parts:
        return Entity(entities.CLIENTS, entities.quoted(parts[CLIENT_ID]))
    if CLIENT_ID not in parts:
        return Entity(entities.USERS, entities.quoted(parts[USER]))
    name = entities.quoted_user_client(parts[USER], parts[CLIENT_ID])
    return Entity(entities.USERS, name)


def named_entity(entity: Entity) -> NamedEntity:
    """The reverse of ``stored_entity``."""
    if entity.entity_type == entities.IPS:
        return ((IP, entities.unquoted(entity.name)),)
    if entity.entity_type == entities.CLIENTS:
        return ((CLIENT_ID, entities.unquoted(entity.name)),)
    user, client_id = entities.split_user(entity.name)
    found: NamedEntity = ((USER, entities.unquoted(user)),)
    return found if client_id is None else (*found, (CLIENT_ID, entities.unquoted(client_id)))


def check_changes(entity: Entity, changes: Sequence[QuotaChange]) -> None:
    """Check that an entity of that type can have these quotas. Raises KafkaError."""
    known = (CONNECTION,) if entity.entity_type == entities.IPS else CLIENT_KINDS
    seen = set()
    for key, value in changes:
        if key in seen:
            raise _refuse(f"{key} occurs more than once for this entity")
        seen.add(key)
        if value is None:
            continue
        if key not in known:
            raise _refuse(f"there is no quota {key!r} here; there are {', '.join(known)}")
        if not value > 0 or not isfinite(value):
            raise _refuse(f"{key} has to be greater than 0, not {value:g}")
        largest = _WHOLE.get(key)
        if largest is not None:
            if value > largest:
                raise _refuse(f"{key} is too large: the largest value is {largest}")
            if value % 1 > _FRACTION_MAX:
                raise _refuse(f"{key} has to be a whole number, not {value}")


def apply_changes(current: Mapping[str, str], changes: Sequence[QuotaChange]) -> dict[str, str]:
    """Return the settings after the changes; settings that are not quotas are kept."""
    changed = dict(current)
    for key, value in changes:
        if value is None:
            changed.pop(key, None)
        else:
            # Not every whole number up to the largest is a float: 2^63 is, and no long.
            changed[key] = str(min(int(value), _WHOLE[key])) if key in _WHOLE else str(value)
    return changed


def check_filter(parts: Sequence[FilterPart]) -> None:
    """Check that the filter can match an entity. Raises KafkaError."""
    seen = set()
    for entity_type, match_type, match in parts:
        if not entity_type:
            raise _refuse("the filter has an empty entity type")
        if entity_type in seen:
            raise _refuse(f"the filter has the entity type {entity_type} more than once")
        if entity_type not in _TYPES:
            text = f"there are no quotas for entities of type {entity_type!r}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        if match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
            raise _refuse(f"there is no match type {match_type}")
        if (match is None) is (match_type == MATCH_EXACT):
            raise _refuse("a name belongs to match type 0 (exact), and to no other")
        seen.add(entity_type)
    if IP in seen and len(seen) > 1:
        raise _refuse("an ip cannot be combined with a user or a client-id in a filter")


def matches(named: NamedEntity, parts: Sequence[FilterPart], *, strict: bool) -> bool:
    """Whether the entity meets all conditions; ``strict``: and has no other types."""
    found = dict(named)
    if strict and len(found) != len(parts):
        return False
    return all(
        part.entity_type in found
        and (part.match_type == MATCH_SPECIFIED or found[part.entity_type] == part.match)
        for part in parts
    )


def quotas_of(entity: Entity, values: Mapping[str, str]) -> dict[str, float]:
    """The quotas among all that is set for the entity, without those that are no numbers."""
    kinds = (CONNECTION,) if entity.entity_type == entities.IPS else CLIENT_KINDS
    found = {}
    for kind in kinds:
        try:
            found[kind] = float(values[kind])
        except (KeyError, ValueError):
            continue
    return found


def _address(name: str | None) -> str | None:
    """Return the canonical form of the address, to compare it with those of peers."""
    if name is None:
        return None
    try:
        return str(ip_address(name))
    except ValueError:
        text = f"{name} is not an IP address; host names are not looked up, give the address"
        raise _refuse(text) from None


def _refuse(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)

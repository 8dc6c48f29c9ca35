"""The quotas that are set, and which of them counts for a client (KIP-55, KIP-257, KIP-612).

An entity is a pair of quoted names, ``<default>`` for the default: its user and its client id, None
where that is no part of it. Pure.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.store.entities import CLIENTS, DEFAULT_ENTITY, IPS, USERS, split_user
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = TypeVar("Key", str, "QuotaEntity")

PRODUCE = "producer_byte_rate"
CONSUME = "consumer_byte_rate"
REQUEST = "request_percentage"
MUTATION = "controller_mutation_rate"
CONNECTION = "connection_creation_rate"
CLIENT_KINDS = (PRODUCE, CONSUME, REQUEST, MUTATION)
# A quota of 0 in the store means the lowest rate, not no limit.
_SMALLEST = {PRODUCE: 1.0, CONSUME: 1.0, REQUEST: 0.001, MUTATION: 0.001, CONNECTION: 0.001}


class QuotaEntity(NamedTuple):
    """The entity of a quota: quoted names, None for a part that the entity does not have."""

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    """The quota that applies to a client: its rate, and the entity whose clients share it."""

    rate: float
    sharers: QuotaEntity


def matching_entities(user: str, client_id: str) -> tuple[QuotaEntity, ...]:
    """Return the entities that match a client, the most specific first. Names are quoted."""
    return (
        QuotaEntity(user, client_id),
        QuotaEntity(user, DEFAULT_ENTITY),
        QuotaEntity(user, None),
        QuotaEntity(DEFAULT_ENTITY, client_id),
        QuotaEntity(DEFAULT_ENTITY, DEFAULT_ENTITY),
        QuotaEntity(DEFAULT_ENTITY, None),
        QuotaEntity(None, client_id),
        QuotaEntity(None, DEFAULT_ENTITY),
    )


class QuotaTable:
    """All quotas of all entities, by kind."""

    def __init__(self) -> None:
        self._rates: dict[str, dict[QuotaEntity, float]] = {kind: {} for kind in CLIENT_KINDS}
        self._ips: dict[str, float] = {}

    @property
    def limits_clients(self) -> bool:
        """Whether any user or client id has a quota."""
        return any(self._rates.values())

    @property
    def limits_ips(self) -> bool:
        """Whether any IP address has a quota."""
        return bool(self._ips)

    def put(self, entity_type: str, name: str, values: Mapping[str, str]) -> list[str]:
        """Replace the quotas of an entity by the current settings in the store.

        Args: ``entity_type`` users, clients or ips; ``name`` as in ``store/entities.py``.
        Returns the kinds whose values are no numbers; they count as not set."""
        unreadable: list[str] = []
        if entity_type == IPS:
            _take(self._ips, name, CONNECTION, values, unreadable)
            return unreadable
        entity = _entity_of(entity_type, name)
        for kind, rates in self._rates.items():
            _take(rates, entity, kind, values, unreadable)
        return unreadable

    def find(self, kind: str, user: str, client_id: str) -> Limit | None:
        """Return the quota of one kind that applies to the client, None without one.

        Args: quoted names. A default quota is not shared by all: each user, each client id, or
        each pair of them has as much."""
        rates = self._rates[kind]
        if not rates:
            return None
        for entity in matching_entities(user, client_id):
            rate = rates.get(entity)
            if rate is not None:
                sharers = QuotaEntity(
                    None if entity.user is None else user,
                    None if entity.client_id is None else client_id,
                )
                return Limit(rate, sharers)
        return None

    def connection_rate(self, ip: str) -> float | None:
        """New connections per second from that address (quoted), None if that has no quota."""
        return self._ips.get(ip, self._ips.get(DEFAULT_ENTITY))


def _take(
    rates: dict[Key, float],
    key: Key,
    kind: str,
    values: Mapping[str, str],
    unreadable: list[str],
) -> None:
    rates.pop(key, None)
    text = values.get(kind)
    if text is None:
        return
    rate = _number(text)
    if rate is None:
        unreadable.append(kind)
    else:
        rates[key] = max(rate, _SMALLEST[kind])


def _entity_of(entity_type: str, name: str) -> QuotaEntity:
    if entity_type == CLIENTS:
        return QuotaEntity(None, name)
    assert entity_type == USERS
    return QuotaEntity(*split_user(name))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None

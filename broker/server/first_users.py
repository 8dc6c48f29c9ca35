"""Users that are made before a broker serves: offline, or when the broker starts.

``--add-scram`` has the form of Kafka's tool: ``SCRAM-SHA-512=[name=alice,password=secret]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.administration.config_writes import try_change
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store.entities import USERS, quoted
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.scram_record import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramMechanism,
    record_of,
)
from ottla.protocol.sasl.user_names import name_problem
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.store.store import MetadataSession

_ATTEMPTS_MAX = 10


class FirstUser(NamedTuple):
    """A user to be made."""

    name: str
    mechanism: ScramMechanism
    password: Secret
    iterations: int = ITERATIONS_MIN


def parse_first_user(text: str) -> FirstUser:
    """Read Kafka's form. Raises ValueError, without the password."""
    name, _, rest = text.partition("=")
    mechanism = SCRAM_MECHANISMS.get(name)
    if mechanism is None or not (rest.startswith("[") and rest.endswith("]")):
        raise ValueError(f"it has to be {'|'.join(SCRAM_MECHANISMS)}=[name=...,password=...]")
    fields: dict[str, str] = {}
    for item in rest[1:-1].split(","):
        key, found, value = item.partition("=")
        if key.strip() not in ("name", "password", "iterations") or not found:
            raise ValueError("the brackets hold name, password and, optionally, iterations")
        fields[key.strip()] = value.strip().strip('"')
    problem = name_problem(fields.get("name", ""))
    if problem is not None:
        raise ValueError(problem)
    if not fields.get("password"):
        raise ValueError("the user needs a password")
    digits = fields.get("iterations", str(ITERATIONS_MIN))
    if not digits.isdecimal() or not ITERATIONS_MIN <= int(digits) <= ITERATIONS_MAX:
        raise ValueError(f"iterations are between {ITERATIONS_MIN} and {ITERATIONS_MAX}")
    return FirstUser(fields["name"], mechanism, Secret(fields["password"]), int(digits))


async def write_user(
    session: MetadataSession, user: FirstUser, salt: bytes, *, only_new: bool
) -> bool:
    """Store the user's credential; False if there is one and ``only_new`` keeps it.

    Raises StoreError, KafkaError."""
    assert len(salt) == SALT_BYTES, "a salt has its size"
    mechanism = user.mechanism.name
    text = record_of(user.mechanism, user.password, salt, user.iterations).text()
    was_there = False

    def edit(current: Mapping[str, str]) -> Mapping[str, str]:
        nonlocal was_there
        was_there = mechanism in current
        return current if was_there and only_new else {**current, mechanism: text}

    for _ in range(_ATTEMPTS_MAX):
        if await try_change(session, Entity(USERS, quoted(user.name)), edit):
            break
    return not (was_there and only_new)

"""Pure. What the supervisor tells each process of a machine's brokers: which broker it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.server.first_users import FirstUser
from ottla.broker.server.in_process import settings_of
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METRICS_LISTENER = "ottla.metrics.listener"
RACK = "broker.rack"
SOCKET_NAME = "store.socket"
# Limits of a machine, where the operator gives them: each process gets its part.
DIVIDED = (
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "max.connection.creation.rate",
    "max.connections",
    "queued.max.request.bytes",
    "queued.max.requests",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


class ChildPlan(NamedTuple):
    """One process. ``store_path`` is empty with ZooKeeper, and ``brokers`` then 0: how many the
    embedded store has."""

    node_id: int
    settings: dict[str, str]
    store_path: str
    brokers: int
    has_metrics: bool
    is_verbose: bool
    log_format: str
    # Name, mechanism, password, iterations.
    users: list[list[Any]]

    def first_users(self) -> list[FirstUser]:
        """To be made before the broker serves."""
        return [
            FirstUser(name, SCRAM_MECHANISMS[mechanism], Secret(password), iterations)
            for name, mechanism, password, iterations in self.users
        ]


def users_as_parts(users: Sequence[FirstUser]) -> list[list[Any]]:
    """The users as ``ChildPlan.users`` has them."""
    return [
        [user.name, user.mechanism.name, user.password.reveal(), user.iterations] for user in users
    ]


def first_id(settings: Mapping[str, str]) -> int:
    """The id of the first broker; the others follow."""
    return int(settings.get("broker.id") or settings.get("node.id") or 1)


def settings_of_process(
    settings: Mapping[str, str], place: int, count: int, host_name: str
) -> dict[str, str]:
    """The settings of the broker in that place, counted from 1, of so many.

    Replicas of a partition avoid the machine where there are others: its brokers share a rack."""
    own = settings_of(settings, place)
    own["broker.id"] = str(first_id(settings) + place - 1)
    own.setdefault(RACK, host_name)
    own |= {name: _part(own[name], count) for name in DIVIDED if name in own}
    # The supervisor serves one page for all.
    own.pop(METRICS_LISTENER, None)
    return own


def _part(text: str, count: int) -> str:
    """A whole number divided; any other text stays, and is judged where it is read."""
    digits = text.strip()
    return str(max(1, int(digits) // count)) if digits.isdecimal() and int(digits) else text

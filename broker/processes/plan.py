"""Pure. The plan that the supervisor gives each broker process: its id and its settings."""

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
# Limits that the operator sets for the machine: each process gets an equal part.
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
    """Plan of one process. With ZooKeeper ``store_path`` is empty and ``brokers`` is 0; with the
    embedded store ``brokers`` is their number."""

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
    """Return the settings of the broker at that place, counted from 1, out of ``count``.

    The brokers of a machine share a rack, so that replicas are placed on other machines if there
    are any."""
    own = settings_of(settings, place)
    own["broker.id"] = str(first_id(settings) + place - 1)
    own.setdefault(RACK, host_name)
    own |= {name: _part(own[name], count) for name in DIVIDED if name in own}
    # The supervisor serves one metrics page for all brokers.
    own.pop(METRICS_LISTENER, None)
    return own


def _part(text: str, count: int) -> str:
    """Divide a whole number; another text is kept, and rejected where it is parsed."""
    digits = text.strip()
    return str(max(1, int(digits) // count)) if digits.isdecimal() and int(digits) else text

"""Names of the entities that have settings, under ``/config``.

Topics, brokers and groups go by their plain names. Users, clients and IP addresses keep the quoted
form of their znodes everywhere in the broker: there ``<default>`` is the default entity, and a user
who is really called that is ``%3Cdefault%3E``. A client of one user is ``<user>/clients/<client>``.
Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from ottla.coordinator.store import znode

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_ENTITY = "<default>"
USERS = "users"
CLIENTS = "clients"
IPS = "ips"
QUOTED_TYPES = frozenset({USERS, CLIENTS, IPS})
_BETWEEN = f"/{CLIENTS}/"


def quoted(name: str | None) -> str:
    """The entity name of a user, client id or IP address; None means the default entity."""
    return DEFAULT_ENTITY if name is None else znode.quoted(name)


def quoted_user_client(user: str | None, client_id: str | None) -> str:
    """The entity name (type ``users``) of one client id of one user; None means the default."""
    return of_user_client(quoted(user), quoted(client_id))


def of_user_client(user: str, client_id: str) -> str:
    """Return the entity name of two parts that are quoted already."""
    return f"{user}{_BETWEEN}{client_id}"


def unquoted(part: str) -> str | None:
    """The plain name of one quoted part, None for the default entity."""
    return None if part == DEFAULT_ENTITY else unquote(part)


def split_user(name: str) -> tuple[str, str | None]:
    """The quoted user and the quoted client id of an entity of type ``users``.

    The client id is None if the entity is the user alone."""
    user, between, client_id = name.partition(_BETWEEN)
    return user, client_id if between else None


def is_well_formed(entity_type: str, name: str) -> bool:
    """Whether a quoted name may become a path: another tool may have written it."""
    user, client_id = split_user(name) if entity_type == USERS else (name, None)
    parts = (user,) if client_id is None else (user, client_id)
    return all(part not in ("", ".", "..") and "/" not in part for part in parts)


def encode(entity_type: str, name: str) -> str:
    """The entity's path below ``/config/<type>``."""
    if name == DEFAULT_ENTITY or entity_type in QUOTED_TYPES:
        return name
    return znode.quoted(name)


def decode(entity_type: str, encoded: str) -> str:
    """The reverse of ``encode``."""
    return encoded if entity_type in QUOTED_TYPES else unquote(encoded)


def parents(entity_type: str, name: str) -> Sequence[str]:
    """The znodes between ``/config/<type>`` and the entity's own, the upper one first."""
    user, client_id = split_user(name) if entity_type == USERS else (name, None)
    return () if client_id is None else (user, f"{user}/{CLIENTS}")

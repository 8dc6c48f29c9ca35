"""How brokers and clients of a cluster connect: plans of brokers, settings of clients.

Certificates and the names of client libraries are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.testing.cluster_node import BROKERS, CLIENTS, NodePlan
from ottla.broker.testing.members import ClusterError
from ottla.protocol.acls import AclRule

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import ModuleType

    from ottla.broker.testing.members import Members
    from ottla.broker.testing.security import ClusterSecurity
    from ottla.client.administration.acl import Acl

SECURITY = (None, "ssl", "mtls", "sasl_ssl", "sasl_plaintext")


def checked_rules(
    security: str | None, users: Mapping[str, str], acls: Sequence[Acl | AclRule] | None
) -> tuple[AclRule, ...] | None:
    """Return the access rules, None without any. Raises ClusterError for invalid ones."""
    if security not in SECURITY:
        known = ", ".join(map(repr, SECURITY))
        raise ClusterError(f"security is one of {known}, not {security!r}")
    if security is not None or users or acls is not None:
        load_security().check_users(security, users, has_rules=acls is not None)
    if acls is None:
        return None
    found: list[AclRule] = []
    for one in acls:
        try:
            # An Acl is loaded by the caller that has made one.
            found += [one] if isinstance(one, AclRule) else one.rules()
        except ValueError as error:
            raise ClusterError(str(error)) from None
    for rule in found:
        kind, _, name = rule.principal.partition(":")
        if kind == "User" and name != "*" and name not in users:
            known = ", ".join(sorted(users)) or "none"
            raise ClusterError(
                f"an access rule is about the user {name!r}, which the cluster does not have: "
                f"add it to users (known: {known})"
            )
    return tuple(dict.fromkeys(found))


def node_plans(
    node_ids: Collection[int],
    settings: Mapping[str, str],
    directory: str,
    security: ClusterSecurity | None,
) -> dict[int, NodePlan]:
    """Return the start parameters of each broker."""
    return {
        node_id: NodePlan(
            node_id,
            len(node_ids),
            {**(security.broker_settings(node_id) if security else {}), **settings},
            {CLIENTS: 0, BROKERS: 0},
            f"{directory}/{node_id}",
            security_protocol=security.protocol if security else "PLAINTEXT",
        )
        for node_id in node_ids
    }


def client_settings(
    security: ClusterSecurity | None, library: str, servers: str, user: str | None
) -> dict[str, object]:
    """Return the addresses and settings for a client of that library. Raises ClusterError."""
    names = _library_names()
    if library not in names.LIBRARIES:
        raise ClusterError(f"library is one of {', '.join(names.LIBRARIES)}, not {library!r}")
    if security is not None:
        return security.of_client(library, servers, user)
    if user is not None:
        raise ClusterError(f"there is no user {user!r}: the cluster has no security")
    settings: dict[str, object] = names.settings_of(library, names.Needs(servers))
    return settings


def inner_client(
    security: ClusterSecurity | None, members: Members
) -> tuple[str, dict[str, object]]:
    """Addresses and security of the cluster's own client.

    The addresses are those of the brokers' own listener, where request faults and client partitions
    do not apply. Raises ClusterError."""
    running = members.running
    if not running:
        raise ClusterError("no broker is running: restart one first")
    servers = ",".join(str(members.member(node_id).addresses[BROKERS]) for node_id in running)
    settings = client_settings(security, "ottla", servers, None)
    return str(settings.pop("bootstrap.servers")), settings


def load_security() -> ModuleType:
    """Import certificates and users, for clusters that have them."""
    from ottla.broker.testing import security

    return security


def _library_names() -> ModuleType:
    """Import the names of client libraries."""
    from ottla.client.settings import library_names

    return library_names

"""Finds the cluster of a classic client: its metadata store, and the registered brokers."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.client.classic.store_login import NO_LOGIN
from ottla.coordinator.store.paths import BROKER_IDS, broker, parse_broker
from ottla.coordinator.store.store import NoNode
from ottla.coordinator.store.zookeeper import ZooKeeperOptions, ZooKeeperStore
from ottla.wire.clock import RealClock
from ottla.wire.errors import ClientError
from ottla.wire.security import PLAINTEXT, protocol_of

if TYPE_CHECKING:
    from ottla.client.classic.store_login import StoreLogin
    from ottla.coordinator.store.paths import EndpointPayload
    from ottla.coordinator.store.store import MetadataSession, Store, Watch
    from ottla.wire.security import ConnectionSecurity

OpenStore = Callable[[str, int | None], Awaitable["Store"]]
"""Opens the metadata store at a connect string; the second argument limits a connection in ms."""


class NoBrokers(ClientError):
    """ZooKeeper lists no broker that a client with these settings can reach."""

    retriable = True


async def open_zookeeper(
    connect: str, connection_timeout_ms: int | None, login: StoreLogin = NO_LOGIN
) -> Store:
    """Open the ensemble at ``connect``. Raises ValueError for an invalid connect string, and for
    TLS files that cannot be used."""
    options = ZooKeeperOptions(
        connection_timeout_ms=connection_timeout_ms,
        digest=None if login.digest is None else login.digest.reveal(),
        set_acl=login.owns,
        tls=login.tls,
    )
    return await ZooKeeperStore.open(connect, RealClock(), options)


def new_consumer_id() -> str:
    """Return ``hostname:uuid``, different at each start of a process."""
    return f"{platform.node()}:{uuid.uuid4()}"


async def registered_brokers(
    session: MetadataSession,
    watch: Watch | None = None,
    security: ConnectionSecurity = PLAINTEXT,
) -> dict[int, EndpointPayload]:
    """Return the first endpoint of each live broker that uses the client's security protocol.

    ``watch`` fires at changes."""
    try:
        names = await session.children(BROKER_IDS, watch)
    except NoNode:
        return {}
    found: dict[int, EndpointPayload] = {}
    for node_id in sorted(int(name) for name in names if name.isdigit()):
        try:
            payload = parse_broker((await session.get(broker(node_id))).data)
        except NoNode:
            continue
        if payload is not None:
            for endpoint in payload.endpoints:
                if endpoint.security_protocol == protocol_of(security):
                    found.setdefault(node_id, endpoint)
    return found


async def bootstrap_from(session: MetadataSession, security: ConnectionSecurity) -> str:
    """Return the addresses of the live brokers. Raises NoBrokers."""
    brokers = await registered_brokers(session, None, security)
    if not brokers:
        raise NoBrokers(none_listed(security, "bootstrap.servers"))
    return ",".join(
        f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}"
        for one in brokers.values()
    )


def none_listed(security: ConnectionSecurity, setting: str) -> str:
    """Return what to do if ZooKeeper lists no broker for the client; ``setting`` is the one for
    addresses."""
    return (
        f"ZooKeeper lists no broker with a listener for {protocol_of(security)}: set "
        f"security.protocol to what a listener speaks, or give the brokers' addresses as {setting}"
    )

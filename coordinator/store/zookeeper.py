"""The metadata store in a ZooKeeper ensemble: opens its sessions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.coordinator.store.store import (
    SESSION_TIMEOUT_MS,
    ConnectionLoss,
    NodeExists,
    SessionState,
    StoreError,
)
from ottla.coordinator.store.zookeeper_channel import Channel
from ottla.coordinator.store.zookeeper_session import ZooKeeperSession
from ottla.coordinator.store.zookeeper_tls import Tls, tls_context
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ssl import SSLContext

    from ottla.protocol.ports import Clock

_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(?::([0-9]{1,5}))?")
_CHROOT = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[^/\0]+)+")
_PORT_MAX = 65_535


class ZooKeeperOptions(NamedTuple):
    """How to reach the ensemble, and which users may access the znodes that brokers create.

    ``connection_timeout_ms`` None: as long as the session timeout. ``digest`` is "user:password" of
    ZooKeeper's digest scheme. With ``set_acl`` only this user may read and write new znodes; with
    ``others_read`` all users may also read them, except users and tokens, as in Kafka. Without
    ``set_acl`` every user may do everything."""

    connection_timeout_ms: int | None = None
    digest: str | None = None
    set_acl: bool = False
    tls: Tls | None = None
    others_read: bool = False


class ConnectString(NamedTuple):
    """``chroot`` is "" or a path without a slash at its end."""

    hosts: str
    chroot: str


def parse_connect(connect: str) -> ConnectString:
    """Parse "host:port,host:port/chroot"; the port may be omitted. Raises ValueError."""
    hosts, slash, below = connect.strip().partition("/")
    chroot = (slash + below).rstrip("/")
    names = [name.strip() for name in hosts.split(",")]
    for name in names:
        found = _HOST.fullmatch(name)
        if found is None or not 0 < int(found[1] or 2181) <= _PORT_MAX:
            raise ValueError(f"zookeeper.connect: {name!r} is not a host with a port")
    if chroot and _CHROOT.fullmatch(chroot) is None:
        raise ValueError(f"zookeeper.connect: {chroot!r} is not a path")
    return ConnectString(",".join(names), chroot)


class ZooKeeperStore:
    """The store of one broker; each ``connect`` opens a session of its own."""

    def __init__(self, place: ConnectString, clock: Clock, options: ZooKeeperOptions) -> None:
        self._place = place
        self._clock = clock
        self._options = options
        self._tls: SSLContext | None = None
        self._sessions: list[ZooKeeperSession] = []

    @classmethod
    async def open(
        cls, connect: str, clock: Clock, options: ZooKeeperOptions | None = None
    ) -> ZooKeeperStore:
        """``connect`` is "host:port,host:port/chroot". Raises ValueError if it is invalid, or if a
        TLS file cannot be used.

        It opens no connection before ``connect``."""
        options = options or ZooKeeperOptions()
        if options.set_acl and not options.digest:
            raise ValueError("zookeeper.set.acl needs a user that will own the znodes")
        store = cls(parse_connect(connect), clock, options)
        if options.tls is not None:
            store._tls = tls_context(options.tls)
        return store

    def __str__(self) -> str:
        return f"ZooKeeper at {self._place.hosts}{self._place.chroot}"

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> ZooKeeperSession:
        """Open a session; create the chroot if it is missing. Raises ConnectionLoss."""
        # Imported on first use: a broker with the embedded store starts without kazoo.
        from ottla.coordinator.store.zookeeper_client import LinkOptions
        from ottla.coordinator.store.zookeeper_link import ZooKeeperLink

        hosts, chroot = self._place
        options = self._options
        link_options = LinkOptions(
            hosts,
            chroot,
            timeout_ms,
            options.digest,
            options.set_acl,
            self._tls,
            options.others_read,
        )
        link = ZooKeeperLink(link_options, self._clock)
        channel = Channel(link, self._clock, timeout_ms)
        limit_ms = options.connection_timeout_ms or timeout_ms
        try:
            await channel.open(limit_ms)
            if chroot:
                await _make_path(channel, chroot)
        except BaseException as error:
            channel.abandon("it was not completed")
            if not isinstance(error, StoreError):
                raise
            raise ConnectionLoss(
                f"no session with ZooKeeper at {hosts} within {limit_ms} ms: {error}"
            ) from error
        session = ZooKeeperSession(channel, chroot)
        self._sessions = [one for one in self._sessions if one.state is not SessionState.LOST]
        self._sessions.append(session)
        return session

    async def close(self) -> None:
        """End every session. May be called again."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session.close()


async def _make_path(channel: Channel, path: str) -> None:
    """Create every missing znode of the path."""
    whole = ZooKeeperSession(channel, "")
    names = path.split("/")[1:]
    for count in range(1, len(names) + 1):
        part = "/" + "/".join(names[:count])
        if await whole.exists(part) is None:
            try:
                await whole.create(part)
            except NodeExists:
                continue

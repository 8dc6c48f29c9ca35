"""One session in a ZooKeeper ensemble: implements ``store.Session``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.coordinator.store.store import (
    ANY_VERSION,
    Create,
    Created,
    Delete,
    Operation,
    OperationResult,
    Replace,
    SessionState,
    Stat,
    WatchEvent,
    Znode,
)
from ottla.coordinator.store.watches import Watches
from ottla.coordinator.store.zookeeper_requests import (
    Children,
    Exists,
    Get,
    GetRights,
    MultiOperation,
    SetRights,
    Sync,
    ZnodeRight,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.coordinator.store.store import Watch
    from ottla.coordinator.store.zookeeper_channel import Channel


class ZooKeeperSession:
    """All paths are below ``root`` (a chroot without a slash at its end, or "")."""

    def __init__(self, channel: Channel, root: str) -> None:
        self._channel = channel
        self._root = root
        self._watches = Watches()
        channel.on_watch = self._on_watch
        channel.on_state(lambda _state: self._watches.clear())

    @property
    def session_id(self) -> int:
        return self._channel.session_id

    @property
    def timeout_ms(self) -> int:
        """The timeout from the servers, which may differ from the requested one."""
        return self._channel.timeout_ms

    @property
    def state(self) -> SessionState:
        return self._channel.state

    @property
    def last_answer_ms(self) -> float:
        """When the last answered request was made."""
        return self._channel.last_answer_ms

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        """Call back at every later change of the state."""
        self._channel.on_state(callback)

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Data and stat."""
        armed = None if watch is None else lambda: self._watches.watch_node(path, watch)
        request = Get(self._full(path), watch is not None)
        return cast("Znode", await self._channel.call(request, armed))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The stat, if there is one."""
        armed = None if watch is None else lambda: self._watches.watch_node(path, watch)
        request = Exists(self._full(path), watch is not None)
        return cast("Stat | None", await self._channel.call(request, armed))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Sorted names."""
        armed = None if watch is None else lambda: self._watches.watch_children(path, watch)
        request = Children(self._full(path), watch is not None)
        return sorted(cast("list[str]", await self._channel.call(request, armed)))

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        """Make a znode."""
        request = Create(self._full(path), data, ephemeral, sequential)
        return self._seen(cast("Created", await self._channel.call(request)))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data."""
        request = Replace(self._full(path), data, version)
        return cast("Stat", await self._channel.call(request))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a childless znode."""
        await self._channel.call(Delete(self._full(path), version))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All or none."""
        full = tuple(one._replace(path=self._full(one.path)) for one in operations)
        results = cast("list[OperationResult]", await self._channel.call(MultiOperation(full)))
        return [one.removeprefix(self._root) if isinstance(one, str) else one for one in results]

    async def rights(self, path: str) -> frozenset[ZnodeRight]:
        """Who may do what with the znode. Raises NoAuth where this user may not see that."""
        request = GetRights(self._full(path))
        return cast("frozenset[ZnodeRight]", await self._channel.call(request))

    async def set_rights(self, path: str, rights: frozenset[ZnodeRight]) -> None:
        """Replace the rights. Raises NoAuth for a znode of another user."""
        await self._channel.call(SetRights(self._full(path), rights))

    async def sync(self) -> None:
        """Wait until the connected server has caught up with the leader."""
        await self._channel.call(Sync(self._full("/")))

    async def close(self) -> None:
        """End the session and its ephemeral znodes."""
        await self._channel.close()

    def _full(self, path: str) -> str:
        assert path.startswith("/"), path
        return self._root + path if path != "/" else self._root or "/"

    def _seen(self, created: Created) -> Created:
        return created._replace(path=created.path.removeprefix(self._root))

    def _on_watch(self, event: WatchEvent) -> None:
        seen = WatchEvent(event.kind, event.path.removeprefix(self._root) or "/")
        for watch in self._watches.take(seen):
            watch(seen)

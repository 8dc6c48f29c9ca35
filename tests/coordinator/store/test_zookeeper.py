"""The store in ZooKeeper: the common contract, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.zookeeper_session import ZooKeeperSession
from tests.coordinator.store.contract import StoreContract
from tests.zookeeper.sessions import expire, open_store
from tests.zookeeper.shared import fresh_place, shared_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.coordinator.store.store import MetadataSession
    from ottla.coordinator.store.zookeeper import ZooKeeperStore


class ZooKeeperWorld:
    """The contract's view of a store in ZooKeeper."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self._store = store

    async def connect(self) -> MetadataSession:
        return await self._store.connect(10_000)

    async def expire(self, session: MetadataSession) -> None:
        assert isinstance(session, ZooKeeperSession)
        await expire(session, shared_server().address)


class TestZooKeeper(StoreContract):
    """The contract."""

    @pytest.fixture
    async def world(self) -> AsyncIterator[ZooKeeperWorld]:
        """A store in a chroot that does not exist yet."""
        store = await open_store(fresh_place())
        yield ZooKeeperWorld(store)
        await store.close()

"""The embedded store against the real thing: one history, equal answers."""

from __future__ import annotations

import pytest

from tests.coordinator.store.history import History
from tests.coordinator.store.support import open_store as open_embedded
from tests.coordinator.store.test_embedded import EmbeddedWorld
from tests.coordinator.store.test_zookeeper import ZooKeeperWorld
from tests.zookeeper.sessions import open_store
from tests.zookeeper.shared import fresh_place

STEPS = 500


@pytest.mark.parametrize("seed", range(4))
async def test_one_history_is_answered_alike_by_both_stores(seed: int) -> None:
    """What is proven on the embedded store must hold on ZooKeeper: names, versions, refusals,
    sequence numbers, watches, and what goes with a session."""
    store = await open_store(fresh_place())
    real = await History(seed, ZooKeeperWorld(store)).play(STEPS)
    await store.close()
    embedded = await History(seed, EmbeddedWorld(await open_embedded())).play(STEPS)

    for step, (ours, theirs) in enumerate(zip(embedded, real, strict=True)):
        assert ours == theirs, f"entry {step}, after {real[max(0, step - 6) : step]}"

"""An operator makes the cluster forget a broker that will not come back, by ``ottla cluster``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.settings.config import ClientConfig
from ottla.wire.errors import RequestRefused
from tests.client.cli import command
from tests.zookeeper.in_process import ensemble, until

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = "/ottla/deleted_topics"


async def test_a_dead_broker_is_drained_and_then_there_is_nothing_to_forget(
    tmp_path: Path,
) -> None:
    """A status of 0 would hide a mistyped id."""
    async with ensemble(tmp_path) as site:
        await site.start(1, 2, 3)
        address = str(site.brokers[1].address)
        async with Admin(address, ClientConfig()) as admin:
            await admin.create_topic(NewTopic("t", assignment=[[1, 2]]))
            await until(lambda: site.holders("t-0") == [1, 2])
        await site.stop(2)
        await until(lambda: sorted(site.tree.get_children("/brokers/ids")) == ["1", "3"])
        moved = await command.ottla("broker", "drain", "2", "-b", address)
        forgotten = await command.ottla("cluster", "unregister", "2", "-b", address)
        unknown = await command.ottla("broker", "drain", "2", "-b", address)

        assert (moved.status, moved.errors) == (0, "")
        assert b"broker 2 has none any more" in moved.output
        assert (forgotten.status, forgotten.output) == (1, b"")
        assert forgotten.errors == (
            "ottla: the cluster knows no broker 2 and keeps nothing for it, so there is nothing to "
            "do; it has 1, 3\n"
        )
        assert unknown.errors == "ottla: the cluster has no broker 2; it has 1, 3\n"


async def test_deletions_wait_for_a_stopped_broker_until_it_is_unregistered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its record goes from the tree. When it comes back all the same, it keeps the directory, says
    so, and serves nothing of it."""
    async with ensemble(tmp_path) as site:
        await site.start(1, 2)
        address = str(site.brokers[1].address)
        async with Admin(address, ClientConfig()) as admin:
            await admin.create_topic(NewTopic("t", assignment=[[1, 2]]))
            await until(lambda: site.holders("t-0") == [1, 2])
            with pytest.raises(RequestRefused, match="broker 2 is running; stop it first"):
                await admin.brokers.unregister(2)
            await site.stop(2)
            await until(lambda: site.tree.get_children("/brokers/ids") == ["1"])
            await admin.delete_topics(["t"])
        (record,) = site.tree.get_children(RECORDS)
        await until(lambda: site.read(f"{RECORDS}/{record}")["brokers"] == [2])
        done = await command.ottla("cluster", "unregister", "2", "-b", address)
        left = site.tree.get_children(RECORDS)
        async with Admin(address, ClientConfig()) as admin:
            with pytest.raises(RequestRefused, match="the cluster keeps nothing for broker 2"):
                await admin.brokers.unregister(2)
        with caplog.at_level(logging.WARNING):
            await site.start(2)

        assert done == (0, b"the cluster keeps nothing more for broker 2\n", "")
        assert left == []
        assert (tmp_path / "2" / "t-0").is_dir()
        assert "t-0" in caplog.text
        assert site.brokers[2].partitions.find("t", 0) is None

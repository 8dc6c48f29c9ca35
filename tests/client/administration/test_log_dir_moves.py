"""Admin moves replicas between the data directories of a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from ottla.client.administration.brokers import LogDirView

WHERE = TopicPartition("t", 0)


async def place(admin: Admin) -> str:
    """The directory of the partition."""
    directories = (await admin.brokers.log_dirs())[1]
    assert isinstance(directories, list)
    (found,) = [one.path for one in directories if _holds(one)]
    return found


def _holds(directory: LogDirView) -> bool:
    return any(one.partition == WHERE and not one.is_future for one in directory.replicas)


async def test_replicas_are_moved_and_each_refusal_is_told() -> None:
    """One request moves all replicas; a refused one does not keep the others from moving."""
    async with running_broker({"log.dirs": "/d1,/d2"}) as running:
        address = running.broker.address
        async with Admin(f"{address.host}:{address.port}") as admin:
            await admin.create_topic(NewTopic("t", 1, 1))
            before = await place(admin)
            target = {"/d1": "/d2", "/d2": "/d1"}[before]
            unknown = TopicPartition("unknown", 3)
            moves = await admin.brokers.move_replicas(1, {WHERE: target, unknown: "/nowhere"})
            async with asyncio.timeout(60):
                while await place(admin) != target:
                    await asyncio.sleep(0.02)

    refused = moves.pop(unknown)
    assert moves == {WHERE: None}
    assert refused is not None
    assert (refused.code, refused.topic, refused.partition) == (
        ErrorCode.LOG_DIR_NOT_FOUND,
        "unknown",
        3,
    )

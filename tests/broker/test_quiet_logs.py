"""What ordinary operation writes to the log: one line per event, and no false alarms."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.producer import Producer
from tests.support.cluster import running_cluster

if TYPE_CHECKING:
    import pytest


async def test_topics_come_and_go_without_noise(caplog: pytest.LogCaptureFixture) -> None:
    """Three brokers learn of each partition at three moments; the log must not show that."""
    async with running_cluster() as cluster:
        bootstrap = str(cluster[1].address)
        caplog.set_level(logging.INFO, "ottla")
        caplog.clear()
        async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
            await admin.create_topics([NewTopic("t", 20, 3)])
            await producer.send("t", b"value")
            await producer.flush()
            await admin.delete_topics(["t"])
        told = [(one.levelname, one.getMessage()) for one in caplog.records]

    assert told == [
        ("INFO", "topic t was created with 20 partitions"),
        ("INFO", "topic t was deleted"),
    ]

"""Reads the page that shows a topic alive: who leads, who follows, what has just happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.console.views.history import HISTORY_MS, SeenPartition
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.views.asked import Document, Question

PARTITIONS_SHOWN = 24


async def read_alive(connection: ConsoleConnection, question: Question) -> Document:
    """A topic as it is, or as it was some seconds ago; the first look begins the recording."""
    topic = question.path["topic"]
    back_s = question.number("back", 0, 0, HISTORY_MS // 1000)

    async def read() -> Mapping[int, SeenPartition]:
        return await states_of(connection, topic)

    recording = await connection.recordings.of(topic, read)
    now_ms = connection.environment.clock.wall_ms()
    return {"topic": topic, "back": back_s, **recording.history.document(now_ms, back_s)}


async def states_of(connection: ConsoleConnection, topic: str) -> dict[int, SeenPartition]:
    """The first partitions of a topic, with their high watermarks."""
    admin = await connection.admin()
    view = await admin.describe_topic(topic)
    numbers = sorted(view.partitions)[:PARTITIONS_SHOWN]
    ends = await admin.list_offsets(
        {TopicPartition(topic, number): LATEST_TIMESTAMP for number in numbers}
    )
    states = {}
    for number in numbers:
        part, end = view.partitions[number], ends[TopicPartition(topic, number)]
        states[number] = SeenPartition(
            part.leader_id,
            part.leader_epoch,
            part.replicas,
            part.isr,
            None if isinstance(end, Exception) else end.offset,
        )
    return states

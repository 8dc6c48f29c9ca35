"""Reads the pages that show partitions live: leaders, followers and recent changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.console.streams import event
from ottla.client.console.views.alive_view import (
    alive_document,
    chosen,
    read_choice,
)
from ottla.client.console.views.history import ClusterMoment, History
from ottla.client.console.views.history_changes import SeenBrokers, SeenPartition
from ottla.protocol.ids import TopicPartition
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping

    from ottla.client.admin import Admin
    from ottla.client.cluster.metadata import PartitionView
    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.recordings import Recording
    from ottla.client.console.streams import Tails
    from ottla.client.console.views.alive_view import AliveChoice
    from ottla.client.console.views.asked import Document, Question

# Key of the whole cluster; no topic has this name.
ALL_TOPICS = ""
PARTITIONS_MAX = 20_000
# A broker that does not answer within this time is omitted from a moment.
ANSWER_MS_MAX = 2_500.0
# Up to this many partitions all last stable offsets are read; above it only those of shown
# partitions.
STABLE_MAX = 500

Parts = dict[TopicPartition, "PartitionView"]


async def read_alive(connection: ConsoleConnection, question: Question) -> Document:
    """Return the partitions now or some seconds ago; the first request starts the recording."""
    choice = read_choice(question)
    topic = question.path.get("topic", ALL_TOPICS)
    recording = await recording_of(connection, topic)
    return await document_of(connection, recording, choice, topic)


async def recording_of(connection: ConsoleConnection, topic: str) -> Recording[History]:
    """Return the recording of a topic, or of all. Raises ClientError."""

    async def read(watched: Collection[TopicPartition]) -> ClusterMoment:
        return await moment_of(connection, topic, watched)

    return await connection.recordings.of(f"alive {topic}", read, History)


async def document_of(
    connection: ConsoleConnection, recording: Recording[History], choice: AliveChoice, topic: str
) -> Document:
    """Return the content of a page. From now on its partitions are recorded in more detail."""
    clock = connection.environment.clock
    if not choice.back_s:
        shown, _facts = chosen(recording.history.states_at(clock.wall_ms()), choice)
        await recording.watch(shown)
    document = alive_document(recording.history, choice, clock.wall_ms())
    return {"topic": topic or None, **document}


async def alive_events(
    connection: ConsoleConnection,
    question: Question,
    tails: Tails,
    render: Callable[[Document], str],
) -> AsyncGenerator[bytes, None]:
    """Yield the page as server-sent events whenever it has changed, until the visitor leaves.

    Each event contains the page's part as HTML, and the newest change as a sentence."""
    choice = read_choice(question)._replace(back_s=0)
    topic = question.path.get("topic", ALL_TOPICS)
    async with tails.place():
        recording = await recording_of(connection, topic)
        yield event("ready", {})
        shown = ""
        while not tails.is_ending() and not connection.is_closed and not recording.is_stopped:
            try:
                document = await document_of(connection, recording, choice, topic)
            except ClientError as error:
                yield event("failure", {"error": str(error)})
                return
            html = render(document)
            if html != shown:
                shown = html
                change = recording.history.last_change
                news = None if change is None else change._asdict()
                yield event("alive", {"html": html, "news": news})
            else:
                # Detects that the visitor has left.
                yield b": nothing has changed\n\n"
            await recording.moved()


async def moment_of(
    connection: ConsoleConnection, topic: str, watched: Collection[TopicPartition]
) -> ClusterMoment:
    """Read all partitions of a topic, or of all topics, with their offsets. Raises ClientError."""
    admin = await connection.admin()
    parts = await partitions_of(connection, topic)
    cluster = await admin.describe_cluster()
    seen = [where for where in watched if where in parts]
    by_leader = _by_broker((part.leader_id, where) for where, part in parts.items())
    if len(parts) <= STABLE_MAX:
        stable_of = by_leader
    else:
        stable_of = _by_broker((parts[where].leader_id, where) for where in seen)
    by_replica = _by_broker((one, where) for where in seen for one in parts[where].replicas)
    marks, stable, ends = await asyncio.gather(
        _ends(connection, admin, by_leader, "uncommitted"),
        _ends(connection, admin, stable_of, "committed"),
        _ends(connection, admin, by_replica, None),
    )
    states = {}
    for where, part in parts.items():
        log_ends: tuple[int | None, ...] = ()
        if where in seen:
            log_ends = tuple(ends.get((one, where)) for one in part.replicas)
        states[where] = SeenPartition(
            part.leader_id,
            part.leader_epoch,
            part.replicas,
            part.isr,
            marks.get((part.leader_id, where)),
            stable.get((part.leader_id, where)),
            log_ends,
        )
    brokers = frozenset(one.node_id for one in cluster.brokers)
    return ClusterMoment(states, SeenBrokers(brokers, cluster.controller_id))


async def partitions_of(connection: ConsoleConnection, topic: str) -> Parts:
    """Return the partitions of a topic, or of all topics. Raises ClientError."""
    if topic == ALL_TOPICS:
        views = await connection.topics(fresh=True)
    else:
        views = [await (await connection.admin()).describe_topic(topic)]
    parts: Parts = {}
    for view in views:
        for number, part in view.partitions.items():
            if len(parts) >= PARTITIONS_MAX:
                return parts
            parts[TopicPartition(view.name, number)] = part
    return parts


def _by_broker(
    pairs: Iterable[tuple[int, TopicPartition]],
) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for broker, where in pairs:
        if broker >= 0:
            found.setdefault(broker, []).append(where)
    return found


async def ends_of_leaders(
    connection: ConsoleConnection, admin: Admin, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the high watermarks from the leaders, without those of leaders that do not answer."""
    wanted = _by_broker((leader, where) for where, leader in leaders.items())
    found = await _ends(connection, admin, wanted, "uncommitted")
    return {where: offset for (_leader, where), offset in found.items()}


async def _ends(
    connection: ConsoleConnection,
    admin: Admin,
    wanted: dict[int, list[TopicPartition]],
    reader: str | None,
) -> dict[tuple[int, TopicPartition], int]:
    """Return offsets by broker and partition. Each broker is asked once, with its own timeout, so
    that a broker that does not answer delays no page: such pages are needed most during
    failures."""

    async def ask(broker: int) -> dict[TopicPartition, int]:
        try:
            async with TimeLimit(connection.environment.clock, ANSWER_MS_MAX):
                found = await admin.brokers.replica_ends({broker: wanted[broker]}, reader=reader)
        except TimeoutError:
            return {}
        answer = found[broker]
        return {} if isinstance(answer, ClientError) else answer

    answers = await asyncio.gather(*map(ask, wanted))
    return {
        (broker, where): offset
        for broker, found in zip(wanted, answers, strict=True)
        for where, offset in found.items()
    }

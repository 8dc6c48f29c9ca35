"""The group coordinator under load: many heartbeats, and a million committed offsets to load."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.harness import cpu_seconds, resident_bytes
from ottla.client.admin import Admin
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ClientConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.protocol.ports import Address
from ottla.wire.api import declare
from ottla.wire.negotiation import connect
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.wire.connection import Connection

GROUPS, MEMBERS = 1_000, 10
CONNECTIONS = 100
INTERVAL_S = 3.0
ROUNDS = 5
# Version 3 needs no second JoinGroup for the member id.
JOIN = declare(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, 3, 3)
SYNC = declare(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse)
HEARTBEAT = declare(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse)
COMMIT = declare(ApiKey.OFFSET_COMMIT, OffsetCommitRequest, OffsetCommitResponse, 2, 8)
FETCH = declare(ApiKey.OFFSET_FETCH, OffsetFetchRequest, OffsetFetchResponse, 2, 7)
LOADED_GROUPS, LOADED_PARTITIONS = 10_000, 100
IN_FLIGHT = 64
Figures = dict[str, float]


class Membership(NamedTuple):
    """One member, and the connection it uses."""

    connection: Connection
    group_id: str
    generation_id: int
    member_id: str


async def connections(address: str, count: int) -> list[Connection]:
    net, clock, _ = real_environment()
    host, _, port = address.rpartition(":")
    config = ClientConfig(request_timeout_ms=120_000)
    return [await connect(net, clock, Address(host, int(port)), config) for _ in range(count)]


async def make_offsets_topic(address: str) -> None:
    """Clients do this by looking for a coordinator."""
    async with Admin(address) as admin:
        await admin.groups.offsets("nobody")


async def enter(group_id: str, links: Sequence[Connection]) -> list[Membership]:
    """Let one member per connection join the group."""
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"subscription")],
    )
    joined = await asyncio.gather(*(link.send(JOIN, request) for link in links))
    assignments = [SyncGroupRequestAssignment(one.member_id, b"assignment") for one in joined]
    synced = await asyncio.gather(
        *(
            link.send(
                SYNC,
                SyncGroupRequest(
                    group_id,
                    one.generation_id,
                    one.member_id,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=assignments if one.leader == one.member_id else [],
                ),
            )
            for link, one in zip(links, joined, strict=True)
        )
    )
    codes = {one.error_code for one in joined} | {one.error_code for one in synced}
    assert codes == {ErrorCode.NONE}, (joined, synced)
    return [
        Membership(link, group_id, one.generation_id, one.member_id)
        for link, one in zip(links, joined, strict=True)
    ]


async def beat(member: Membership, latencies: list[float]) -> None:
    started = time.perf_counter()
    answer = await member.connection.send(
        HEARTBEAT, HeartbeatRequest(member.group_id, member.generation_id, member.member_id)
    )
    latencies.append(time.perf_counter() - started)
    assert answer.error_code == ErrorCode.NONE, answer


async def beat_in_turn(members: list[Membership], latencies: list[float]) -> None:
    """Send one heartbeat of each member, evenly spread over the interval."""
    started = time.perf_counter()
    sent = []
    for number, member in enumerate(members):
        if number % 10 == 0:
            ahead = started + INTERVAL_S * number / len(members) - time.perf_counter()
            await asyncio.sleep(max(0.0, ahead))
        sent.append(asyncio.ensure_future(beat(member, latencies)))
    await asyncio.gather(*sent)


async def _heartbeats(broker: BrokerProcess) -> Figures:
    await make_offsets_topic(broker.address)
    links = await connections(broker.address, CONNECTIONS)
    started = time.perf_counter()
    entered = await asyncio.gather(
        *(
            enter(
                f"group-{number}", [links[(number + one) % CONNECTIONS] for one in range(MEMBERS)]
            )
            for number in range(GROUPS)
        )
    )
    joining = time.perf_counter() - started
    members = [member for group in entered for member in group]
    latencies: list[float] = []
    await beat_in_turn(members, [])
    before, began = cpu_seconds(broker.process_id), time.perf_counter()
    for _ in range(ROUNDS):
        await beat_in_turn(members, latencies)
    seconds = time.perf_counter() - began
    used = cpu_seconds(broker.process_id) - before
    for link in links:
        link.close()
    return {
        "members": float(len(members)),
        "seconds_to_join_with_a_delay_of_3": joining,
        "heartbeats_per_second": len(latencies) / seconds,
        "broker_cpu_per_second": used / seconds,
        "broker_us_per_heartbeat": 1e6 * used / len(latencies),
        "heartbeat_p50_us": 1e6 * statistics.median(latencies),
        "heartbeat_p99_us": 1e6 * statistics.quantiles(latencies, n=100)[98],
        "resident_mb": resident_bytes(broker.process_id) / 1e6,
    }


def group_heartbeats() -> Figures:
    """1,000 groups of 10 members that heartbeat every 3 s: broker CPU per second, p99 latency."""
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "data") as broker,
    ):
        return asyncio.run(_heartbeats(broker))


async def _commit_all(address: str) -> None:
    await make_offsets_topic(address)
    (link,) = await connections(address, 1)
    partitions = [OffsetCommitRequestPartition(number, 7) for number in range(LOADED_PARTITIONS)]
    topics = [OffsetCommitRequestTopic("read", partitions=partitions)]
    for first in range(0, LOADED_GROUPS, IN_FLIGHT):
        answers = await asyncio.gather(
            *(
                link.send(COMMIT, OffsetCommitRequest(f"group-{number}", -1, topics=topics))
                for number in range(first, min(first + IN_FLIGHT, LOADED_GROUPS))
            )
        )
        codes = {
            part.error_code for one in answers for topic in one.topics for part in topic.partitions
        }
        assert codes == {ErrorCode.NONE}, codes
    link.close()


async def _wait_until_loaded(address: str) -> None:
    """Until every partition of the offsets topic answers, and then that all is there."""
    (link,) = await connections(address, 1)
    asked = [f"group-{number}" for number in range(500)]
    while asked:
        answers = await asyncio.gather(
            *(link.send(FETCH, OffsetFetchRequest(one, None)) for one in asked)
        )
        loading = []
        for group_id, answer in zip(asked, answers, strict=True):
            if answer.error_code != ErrorCode.NONE:
                loading.append(group_id)
            else:
                assert [len(topic.partitions) for topic in answer.topics] == [LOADED_PARTITIONS]
        asked = loading
        # Asking costs the broker time that it needs for loading.
        await asyncio.sleep(0.1)
    link.close()


def offsets_loading() -> Figures:
    """1,000,000 committed offsets: seconds until the last can be fetched again (aim 5 s)."""
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data").start()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("read", LOADED_PARTITIONS)])["read"].result(30)
        began, before = time.perf_counter(), cpu_seconds(broker.process_id)
        asyncio.run(_commit_all(broker.address))
        committing = time.perf_counter() - began
        commit_cpu = cpu_seconds(broker.process_id) - before
        broker.stop()
        began = time.perf_counter()
        broker.start()
        ready = time.perf_counter() - began
        asyncio.run(_wait_until_loaded(broker.address))
        loaded = time.perf_counter() - began
        used = cpu_seconds(broker.process_id)
        resident = resident_bytes(broker.process_id)
        broker.stop()
    offsets = LOADED_GROUPS * LOADED_PARTITIONS
    return {
        "offsets": float(offsets),
        "seconds_to_commit": committing,
        "broker_us_per_committed_offset": 1e6 * commit_cpu / offsets,
        "ready_seconds": ready,
        "seconds_from_start_to_loaded": loaded,
        "seconds_to_load": loaded - ready,
        "broker_cpu_seconds_from_start": used,
        "resident_mb": resident / 1e6,
    }


GROUP_MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    measure.__name__: measure for measure in (group_heartbeats, offsets_loading)
}

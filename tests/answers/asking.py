"""Asking a broker all of them, and what two brokers' answers differ in."""

from __future__ import annotations

import asyncio
import json
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce import ProduceRequest
from tests.answers.cases import Case, all_cases
from tests.answers.masks import masked
from tests.answers.produces import TOPICS, produce_cases
from tests.broker.support.groups import commit, coordinated
from tests.broker.support.requests import batch, create, produced, topic_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import RawClient

Answers = dict[str, Any]
CLOSED = "the connection is closed"
SILENT = "no answer"
KEPT = "no answer, and the connection is kept"
TOPIC_ID_VERSION = 13
# Kafka leaves some mistakes without any answer.
PATIENCE_S = 10
ASKING_S = 300
# Every broker is broker 1, and has topics, groups and transactions in as many partitions.
SETTINGS = {
    "broker.id": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def file_of(version: str) -> Path:
    """Where the answers of that version of Kafka are kept."""
    return Path(__file__).parent / f"kafka-{version}.jsonl"


def recorded(version: str) -> Answers:
    """The answers of that version of Kafka."""
    lines = file_of(version).read_text("utf-8").splitlines()
    return dict(json.loads(line) for line in lines)


def record(version: str, answers: Answers) -> None:
    """Keep them."""
    lines = (json.dumps(item, separators=(",", ":")) + "\n" for item in answers.items())
    file_of(version).write_text("".join(lines), "utf-8")


async def ask_all(connect: Any) -> Answers:
    """All answers of a fresh broker; ``connect`` gives a connection to it each time."""
    answers: Answers = {}
    async with asyncio.timeout(ASKING_S):
        for prepare, cases in ((_prepare, all_cases()), (_prepare_produces, produce_cases())):
            async with connect() as client:
                await prepare(client)
            left = list(cases)
            while left:
                async with connect() as client:
                    await _ask(client, left, answers)
    return answers


async def _ask(client: RawClient, cases: list[Case], answers: Answers) -> None:
    """Until there is none left, or the broker has had enough of this connection."""
    while cases:
        name, version, request = cases.pop(0)
        assert name not in answers, f"two cases are named {name}"
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await _answer(client, version, request)
        except TimeoutError:
            answers[name] = SILENT
            return
        except (EOFError, ConnectionError):
            answers[name] = CLOSED
            return
        answers[name] = json.loads(json.dumps(answer))


async def _answer(client: RawClient, version: int, request: Any) -> Any:
    if isinstance(request, ProduceRequest):
        if version >= TOPIC_ID_VERSION:
            for topic in request.topic_data:
                topic.topic_id = await topic_id_of(client, topic.name)
        if request.acks == 0:
            client.send(version, request)
            # A broker that hangs up does so before it answers the next request.
            await client.call(0, ApiVersionsRequest())
            return KEPT
    return masked(await client.call(version, request))


async def _prepare_produces(client: RawClient) -> None:
    for topic, (partitions, configs) in TOPICS.items():
        named = {name.replace(".", "_"): value for name, value in configs.items()}
        made = await create(client, topic, partitions, **named)
        assert made.error_code == ErrorCode.NONE, made
        for index in range(partitions):
            await _led(client, topic, index)


async def _prepare(client: RawClient) -> None:
    assert (await create(client, "base", 3)).error_code == ErrorCode.NONE
    assert (await create(client, "trim")).error_code == ErrorCode.NONE
    made = await create(client, "comp", cleanup_policy="compact")
    assert made.error_code == ErrorCode.NONE
    for topic, partition in (("base", 0), ("base", 1), ("base", 2), ("comp", 0), ("trim", 0)):
        await _led(client, topic, partition)
    for topic in ("base", "trim"):
        for value in (b"1", b"2"):
            await produced(client, batch(value), topic=topic)
    for group_id in ("known", "joined", "nobody", "nope", "", "a b"):
        await _found(client, 1, group_id)
        if group_id:
            await coordinated(client, group_id)
    await commit(client, {("base", 0): 1}, group_id="known")


async def _led(client: RawClient, topic: str, partition: int) -> None:
    part = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part])]
    )
    while (await client.call(5, request)).topics[0].partitions[0].error_code:
        await asyncio.sleep(0.02)


async def _found(client: RawClient, key_type: int, key: str) -> None:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    while (await client.call(4, request)).coordinators[0].error_code == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ):
        await asyncio.sleep(0.02)


def differences(theirs: Any, ours: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two answers part: the field, what one says and what the other."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(theirs.keys() | ours.keys()):
            inner = f"{where}.{name}" if where else name
            yield from differences(theirs.get(name), ours.get(name), inner)
    elif isinstance(theirs, list) and isinstance(ours, list):
        for one, other in zip_longest(theirs, ours):
            yield from differences(one, other, where)
    elif theirs != ours:
        yield where, theirs, ours

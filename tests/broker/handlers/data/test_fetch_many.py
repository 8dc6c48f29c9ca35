"""Fetches of many partitions without a session: the same answers, for a fraction of the work.

The short way takes only frames that end where the request ends; with a byte behind it, which
brokers ignore, the same request goes the ordinary way. Two simulated machines with the same seed
are given the same requests, on one of them with that byte.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.records.fetch_of_many import FetchCodec
from tests.broker.support.requests import batch, create, produce, topic_id_of
from tests.support.virtual_time import in_virtual_time, virtual_broker

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports

VERSIONS = range(11, 18)
TOPICS = {"many": 24, "others": 20}
CLIENT_ID = "client"
BODY = 10 + len(CLIENT_ID)
STEPS = 120


def framed(version: int, request: FetchRequest, number: int, tail: bytes) -> bytes:
    out = bytearray()
    encode_request_header(out, RequestHeader(ApiKey.FETCH, version, number, CLIENT_ID))
    return bytes(out) + encode(request, version) + tail


class Draws:
    """Requests as consumers of many partitions send them, and now and then as they do not."""

    def __init__(self, random: Random, ids: dict[str, bytes]) -> None:
        self.random = random
        self.ends = {(topic, index): 0 for topic, count in TOPICS.items() for index in range(count)}
        self.version = random.choice(VERSIONS)
        self.level = random.randrange(2)
        self._ids = ids

    def fetch(self, wait_ms: int, min_bytes: int) -> FetchRequest:
        topics = []
        for name, count in TOPICS.items():
            if name == "others" and self.random.random() < 0.4:
                continue
            first = self.random.randrange(count)
            indexes = [(first + number) % count for number in range(count)]
            partitions = [self.partition(name, index) for index in indexes]
            if self.random.random() < 0.1:
                partitions[0].fetch_offset = 0
                partitions.append(FetchPartition(first, -1, 0, partition_max_bytes=1 << 19))
            topics.append(FetchTopic(name, self._ids[name], partitions))
        if self.random.random() < 0.04:
            topics.append(FetchTopic("missing", b"m" * 16, [FetchPartition(0)]))
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=self.random.choice([0, 300, 1 << 20, 1 << 20, 1 << 20]),
            isolation_level=self.level,
            topics=topics,
        )

    def partition(self, name: str, index: int) -> FetchPartition:
        chance = self.random.random()
        offset = self.ends[name, index]
        if chance < 0.02:
            offset = self.random.choice([-1, offset + 5])
        elif chance < 0.06:
            offset = self.random.randrange(offset + 1)
        return FetchPartition(
            index,
            self.random.choice([-1] * 200 + [0, 0, 0, 7]),
            offset,
            partition_max_bytes=1 << 20 if self.random.random() < 0.98 else 100,
        )


def conversation(seed: int, tail: bytes) -> tuple[list[bytes], int]:
    """The answers of a seed, and how many requests the short way can read."""

    async def story(ports: Ports) -> tuple[list[bytes], int]:
        answers, short = [], 0
        async with (
            virtual_broker(ports) as brokers,
            brokers.connect() as client,
            brokers.connect() as other,
        ):
            for name, count in TOPICS.items():
                await create(client, name, count)
            ids = {name: await topic_id_of(client, name) for name in TOPICS}
            draws = Draws(Random(seed), ids)

            async def write() -> None:
                name, index = draws.random.choice(list(draws.ends))
                await other.call(9, produce(batch(b"one"), 1, name, index))
                draws.ends[name, index] += 1

            for number in range(STEPS):
                waits = draws.random.random() < 0.4
                least = draws.random.choice([1, 1, 120])
                request = draws.fetch(200 if waits else 0, least)
                frame = framed(draws.version, request, number, tail)
                short += FetchCodec(draws.version).read(memoryview(frame), BODY) is not None
                client.send_frame(frame)
                if waits:
                    await ports.clock.sleep(draws.random.choice([5, 50]))
                    for _ in range(draws.random.randrange(3)):
                        await write()
                answers.append(await client.frame())
                if draws.random.random() < 0.5:
                    await write()
        return answers, short

    return in_virtual_time(story, seed)


@pytest.mark.parametrize("seed", range(8))
def test_both_ways_answer_alike(seed: int) -> None:
    """A consumer must not be able to tell from an answer how it was made."""
    shortly, read = conversation(seed, b"")
    ordinarily, none = conversation(seed, b"\0")

    assert none == 0
    assert read > STEPS / 2
    for number, (short, ordinary) in enumerate(zip(shortly, ordinarily, strict=True)):
        assert short == ordinary, f"request {number}"


def test_a_frame_that_is_cut_anywhere_is_left_to_the_ordinary_way() -> None:
    """Its sizes are a client's word."""
    partitions = [FetchPartition(index, 3, 5, partition_max_bytes=9) for index in range(20)]
    request = FetchRequest(topics=[FetchTopic("t", b"1" * 16, partitions)])
    for version in VERSIONS:
        codec = FetchCodec(version)
        frame = memoryview(framed(version, request, 1, b""))
        whole = codec.read(frame, BODY)
        assert whole is not None
        (topic,) = whole.topics
        assert (topic.topic, topic.topic_id) == (
            ("t", ZERO_UUID) if version < 13 else ("", b"1" * 16)
        )
        assert [codec.fields(one).partition for one in topic.pieces] == list(range(20))
        for size in range(BODY, len(frame)):
            assert codec.read(frame[:size], BODY) is None

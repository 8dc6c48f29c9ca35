"""A produce or fetch of one partition is answered alike, whichever of two decoders reads it.

The lean decoder takes only frames that end where the request ends; with a byte behind it, which
brokers ignore, the same request goes to the compiled decoder. Two simulated machines with the same
seed are given the same requests, on one of them with that byte.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.records.straight import PRODUCE_VERSIONS, produce_reader
from ottla.protocol.records.straight_fetch import FETCH_VERSIONS, fetch_reader
from tests.broker.support import drawn_requests
from tests.broker.support.drawn_requests import Drawn, Draws
from tests.broker.support.requests import create, topic_id_of
from tests.support.virtual_time import in_virtual_time, virtual_broker

if TYPE_CHECKING:
    from ottla.broker.server.broker import Broker
    from ottla.protocol.ports import Ports
    from tests.support.raw_client import RawClient
    from tests.support.virtual_time import VirtualBrokers

CLIENT_ID = "client"
BODY = 10 + len(CLIENT_ID)
REQUESTS = 500
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "also-plain": {},
    "small": {"max.message.bytes": "700", "segment.bytes": "1000"},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
    "timely": {"message.timestamp.before.max.ms": "60000"},
    "flushed": {"flush.messages": "3"},
    "two-in-sync": {"min.insync.replicas": "2"},
}
MISSING = "missing"


def framed(drawn: Drawn, number: int, tail: bytes) -> bytes:
    """The request as a frame without its length, and the tail behind it."""
    version, request = drawn
    key = ApiKey.PRODUCE if isinstance(request, ProduceRequest) else ApiKey.FETCH
    out = bytearray()
    encode_request_header(out, RequestHeader(key, version, number, CLIENT_ID))
    return bytes(out) + encode(request, version) + tail


def is_lean(drawn: Drawn, tail: bytes) -> bool:
    """Whether the lean decoder reads the request."""
    version, request = drawn
    frame = memoryview(framed(drawn, 0, tail))
    # The tag section of a flexible header is the lean decoder's to read.
    if isinstance(request, ProduceRequest):
        return version in PRODUCE_VERSIONS and produce_reader(version)(frame, BODY) is not None
    return version in FETCH_VERSIONS and fetch_reader(version)(frame, BODY) is not None


class Conversation:
    """One client that sends each request when the one before is answered, and connects again when
    the broker has closed its connection."""

    def __init__(self, brokers: VirtualBrokers, tail: bytes) -> None:
        self._brokers = brokers
        self._tail = tail
        self._client: RawClient | None = None
        self._number = 0

    async def say(self, drawn: Drawn) -> bytes | str:
        """The answer's bytes, or what happened in place of one."""
        if self._client is None:
            self._client = await self._brokers.connect().__aenter__()
        self._number += 1
        client = self._client
        client.send_frame(framed(drawn, self._number, self._tail))
        request = drawn[1]
        try:
            if isinstance(request, ProduceRequest) and request.acks == 0:
                # Nothing is owed: what comes next answers the next request.
                await client.call(0, ApiVersionsRequest())
                return "no answer"
            return await client.frame()
        except EOFError:
            await client.__aexit__(None, None, None)
            self._client = None
            return "closed"


async def bytes_of(broker: Broker) -> dict[str, bytes]:
    """All that is in the logs of the broker, by partition."""
    found = {}
    for one in broker.partitions:
        log, content = one.log, b""
        at = log.log_start_offset
        while at < log.log_end_offset:
            read = log.read(at, 1 << 20, log.log_end_offset, True)
            assert read.region is not None
            content += bytes(read.region.read())
            at = read.next_offset
        found[str(one.partition)] = content
    return found


def conversation(seed: int, tail: bytes) -> tuple[list[Drawn], list[Any], dict[str, bytes]]:
    """The requests of a seed, their answers, and the logs at the end."""

    async def story(ports: Ports) -> tuple[list[Drawn], list[Any], dict[str, bytes]]:
        async with virtual_broker(ports, {"fetch.max.bytes": "2048"}) as brokers:
            ids = {}
            async with brokers.connect() as client:
                for name, settings in TOPICS.items():
                    await create(client, name, 2, **settings)
                for name in (*TOPICS, MISSING):
                    ids[name] = await topic_id_of(client, name)
            draws = Draws(Random(seed), ids, ports.clock.wall_ms())
            # The first request of each version is always read by the compiled decoder.
            first: list[Drawn] = [
                (one, ProduceRequest()) for one in drawn_requests.PRODUCE_VERSIONS
            ]
            first += [(one, FetchRequest()) for one in drawn_requests.FETCH_VERSIONS]
            requests = first + [draws.request() for _ in range(REQUESTS)]
            said = Conversation(brokers, tail)
            answers = [await said.say(one) for one in requests]
            return requests, answers, await bytes_of(brokers[1])

    return in_virtual_time(story, seed)


@pytest.mark.parametrize("seed", range(6))
def test_both_decoders_lead_to_the_same_answers_and_the_same_log(seed: int) -> None:
    """Byte for byte, success and refusal, in logs and on the wire."""
    requests, answers, logs = conversation(seed, b"")
    again, answers_at_length, logs_at_length = conversation(seed, b"\0")

    assert again == requests
    different = [
        (number, requests[number], one, other)
        for number, (one, other) in enumerate(zip(answers, answers_at_length, strict=True))
        if one != other
    ]
    assert different == []
    assert logs == logs_at_length
    assert sum(map(len, logs.values())) > 3_000
    lean = sum(is_lean(one, b"") for one in requests)
    assert lean > REQUESTS // 4
    assert not any(is_lean(one, b"\0") for one in requests)

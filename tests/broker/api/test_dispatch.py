"""The outermost layer: unknown keys, unknown versions, malformed requests, order."""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

import pytest

from ottla.broker.engine.request_log import TRACE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.broker.support.requests import batch, create, fetch, fetched, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


# Least and greatest version by API key.
SERVED = {
    0: (0, 13),
    1: (0, 18),
    2: (0, 10),
    3: (0, 13),
    4: (5, 7),
    5: (3, 4),
    6: (7, 8),
    7: (3, 3),
    8: (0, 9),
    9: (0, 9),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    17: (0, 1),
    18: (0, 5),
    19: (0, 7),
    20: (0, 6),
    21: (0, 2),
    22: (0, 5),
    23: (0, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (0, 2),
    28: (0, 5),
    29: (0, 3),
    30: (0, 3),
    31: (0, 3),
    32: (0, 4),
    33: (0, 2),
    34: (0, 2),
    35: (0, 4),
    36: (0, 2),
    37: (0, 3),
    38: (0, 3),
    39: (0, 2),
    40: (0, 2),
    41: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    48: (0, 1),
    49: (0, 1),
    50: (0, 0),
    51: (0, 0),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    68: (0, 1),
    69: (0, 1),
    74: (0, 1),
    75: (0, 0),
}


@pytest.mark.requirement("NET-08")
async def test_an_unknown_key_is_answered_and_the_connection_stays(client: RawClient) -> None:
    """A client that probes must be able to go on with what it does know."""
    client.send_frame(struct.pack(">hhih", 999, 0, 77, -1))

    assert await client.frame() == struct.pack(">ih", 77, ErrorCode.UNSUPPORTED_VERSION)
    assert (await client.call(0, ApiVersionsRequest())).error_code == ErrorCode.NONE


async def test_an_unknown_version_closes_the_connection(client: RawClient) -> None:
    """The layout of the answer would be as unknown as that of the request."""
    client.send_frame(struct.pack(">hhih", 3, 99, 1, -1))

    with pytest.raises(EOFError):
        await client.frame()


async def test_an_unknown_version_of_api_versions_is_told_what_is_served(
    client: RawClient,
) -> None:
    """A version 0 body, whatever was asked: how every client finds its way (KIP-511)."""
    client.send_frame(struct.pack(">hhih", 18, 99, 5, -1) + b"\x00anything")

    answer = await client.answer(0, ApiVersionsRequest())

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    own = next(entry for entry in answer.api_keys if entry.api_key == 18)
    assert (own.min_version, own.max_version) == (0, 5)


@pytest.mark.parametrize("version", range(6))
async def test_the_answer_to_api_versions_tells_the_truth(client: RawClient, version: int) -> None:
    """Minima decide whether old librdkafka uses a feature at all."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")

    answer = await client.call(version, request)

    ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert answer.error_code == ErrorCode.NONE
    assert ranges == SERVED


async def test_a_client_without_a_proper_name_is_refused(client: RawClient) -> None:
    """Java brokers answer INVALID_REQUEST, and librdkafka then retries with version 0."""
    request = ApiVersionsRequest(client_software_name="-bad-", client_software_version="1")

    assert (await client.call(3, request)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("junk", [b"", b"\x00", b"\x00\x03\x00\x09\x00\x00\x00\x01\x00"])
async def test_a_malformed_request_costs_only_its_connection(junk: bytes) -> None:
    """A client that sends junk must not disturb the connections of other clients."""
    async with running_broker() as running, running.connect() as healthy:
        await create(healthy)
        async with running.connect() as broken:
            broken.send_frame(junk)
            with pytest.raises(EOFError):
                await broken.frame()

        assert (await produced(healthy, batch(b"x"))).base_offset == 0


async def test_bytes_after_the_request_are_ignored(client: RawClient) -> None:
    """librdkafka's request for all topics, captured: its array count is of the wrong encoding."""
    await create(client)
    client.send_frame(bytes.fromhex("0003000d00000004000772646b61666b610000000000010000"))

    answer = await client.answer(13, MetadataRequest())

    assert [topic.name for topic in answer.topics] == ["t"]


@pytest.mark.requirement("NET-09")
async def test_pipelined_requests_are_answered_in_order(client: RawClient) -> None:
    """The long poll in the middle must hold back what comes after it."""
    await create(client)

    waiting = fetch(0, max_wait_ms=300, min_bytes=1)
    first = client.send(0, ApiVersionsRequest())
    second = client.send(12, waiting)
    third = client.send(9, MetadataRequest(topics=None))

    frames = [await client.frame() for _ in range(3)]

    assert [int.from_bytes(frame[:4]) for frame in frames] == [first, second, third]


async def test_a_null_client_id_is_served(client: RawClient) -> None:
    """The header's client id is nullable in every version."""
    client.send(0, ApiVersionsRequest(), client_id=None)

    assert (await client.answer(0, ApiVersionsRequest())).error_code == ErrorCode.NONE


@pytest.mark.requirement("NET-17")
async def test_a_fetch_without_a_client_id_counts_as_one_with_the_empty_id(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is answered alike, and the log of requests shows it alike."""
    await create(client)
    await produced(client, batch(b"x"))
    frames = []
    with caplog.at_level(TRACE, "ottla.requests"):
        for client_id in (None, "", "raw"):
            client.send(12, fetch(0), client_id)
            # Behind the correlation id.
            frames.append((await client.frame())[4:])
    told = [line for line in caplog.messages if line.startswith("api 1 version 12, ")]

    assert b"x" in frames[0]
    assert frames[0] == frames[1] == frames[2]
    assert [line.split(", ")[2] for line in told] == [
        "client id ''",
        "client id ''",
        "client id 'raw'",
    ]


async def test_the_log_of_requests_notices_a_level_that_was_set_behind_the_broker(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests of the shorter way look at a flag, and one in 64 of them asks the logger."""
    await create(client)
    await produced(client, batch(b"x"))
    await fetched(client, 0)
    with caplog.at_level(TRACE, "ottla.requests"):
        for _ in range(65):
            await fetched(client, 0)
        on = len(caplog.messages)
    await fetched(client, 0)

    assert 1 <= on <= 65
    assert len(caplog.messages) == on


async def test_the_log_of_requests_is_off_by_default(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A line costs as much as a small request."""
    with caplog.at_level(logging.DEBUG, "ottla"):
        await create(client)
        assert (await fetched(client, 0)).error_code == ErrorCode.NONE

    assert [one for one in caplog.records if one.name == "ottla.requests"] == []

"""Clients of 0.7 produce and consume beside clients of today."""

from __future__ import annotations

import struct

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.records.compression import Codec
from tests.broker.support.requests import batch, create, produced
from tests.broker.wire07.site import site_07, values_of
from tests.protocol.wire07.client_07 import (
    EARLIEST,
    LATEST,
    fetch_part,
    gzipped_07,
    message_07,
    produce_part,
    read_07,
)

FIVE = [b"a", b"", b"ccc", b"d" * 40, b"e"]


def _sizes(values: list[bytes]) -> int:
    return sum(10 + len(one) for one in values)


@pytest.mark.requirement("NET-29")
async def test_what_0_7_produces_is_read_by_both() -> None:
    """The answer to FETCH is total length, error code and messages, to the byte."""
    messages = b"".join(message_07(one, 1) for one in FIVE)
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        old.produce("t", messages)
        assert await values_of(today, 0, 5) == FIVE
        old.send(1, fetch_part("t", 0, 0))
        answer = await old.answer()
        assert answer == struct.pack(">ih", 2 + len(messages), 0) + messages
        assert await old.consume("t", 0) == (FIVE, _sizes(FIVE))
        # At the end there is nothing, at once.
        assert await old.fetch("t", _sizes(FIVE)) == (0, b"")


async def test_each_form_of_a_message_is_stored() -> None:
    """Magic 0 and 1, compressed or not; a set keeps its codec in the log."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        old.produce("t", message_07(b"plain"))
        old.produce("t", message_07(b"one", 1) + gzipped_07(b"two", b"three"))
        old.produce("t", b"")
        old.produce("t", message_07(b"whole") + message_07(b"torn")[:-1])
        wanted = [b"plain", b"one", b"two", b"three", b"whole"]
        assert await values_of(today, 0, 5) == wanted
        assert await old.consume("t", 0) == (wanted, _sizes(wanted))


async def test_what_clients_of_today_produce_is_read_by_0_7() -> None:
    """Keys, headers and times are left out; every codec is served uncompressed."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        wanted = []
        for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD):
            values = [b"%s-%d" % (codec.name.encode(), number) * 50 for number in range(20)]
            wanted += values
            await produced(today, batch(*values, codec=codec))
        for size in (1 << 20, 2_000, 700):
            assert await old.consume("t", 0, size) == (wanted, _sizes(wanted))


@pytest.mark.requirement("NET-31")
async def test_the_byte_limit_cuts_the_last_message() -> None:
    """A consumer discards the cut bytes by their size prefix, and asks again from there."""
    whole = b"".join(message_07(one, 1) for one in FIVE)
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await produced(today, batch(*FIVE))
        for size in range(1, len(whole) + 5):
            error, messages = await old.fetch("t", 0, size)
            assert (error, messages) == (0, whole[:size])
            read, advance = read_07(messages)
            assert read == FIVE[: len(read)]
            error, rest = await old.fetch("t", advance)
            assert (error, rest) == (0, whole[advance:])


@pytest.mark.requirement("NET-30")
async def test_a_multifetch_is_answered_in_its_order_with_an_error_for_each() -> None:
    """Total length, error code, then for each part length, error code and messages."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today, partitions=2)
        multi = produce_part("t", 1, message_07(b"in 1")) + produce_part("t", 0, message_07(b"0"))
        old.send(3, struct.pack(">h", 2) + multi)
        await values_of(today, 0, 1)
        parts = [fetch_part("t", 1, 0), fetch_part("t", 0, 3), fetch_part("t", 0, 0)]
        parts += [fetch_part("t", 2, 0), fetch_part("none", 0, 0), fetch_part("t", 0, 0, 0)]
        found = await old.multifetch(parts)
        assert found == [
            (0, message_07(b"in 1", 1)),
            (1, b""),
            (0, message_07(b"0", 1)),
            (3, b""),
            (0, b""),
            (4, b""),
        ]
        old.send(2, struct.pack(">h", 2) + parts[0] + parts[2])
        expected = b"".join(
            struct.pack(">ih", 2 + len(one), 0) + one
            for one in (message_07(b"in 1", 1), message_07(b"0", 1))
        )
        assert await old.answer() == struct.pack(">ih", 2 + len(expected), 0) + expected
        assert await old.multifetch([]) == []


async def test_offsets_are_positions_between_messages() -> None:
    """A consumer starts at what OFFSETS says, at the end or the beginning."""
    async with site_07() as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        assert await old.offsets("t", LATEST) == (0, [0])
        await produced(today, batch(*FIVE))
        end = _sizes(FIVE)
        assert await old.offsets("t", LATEST) == (0, [end])
        assert await old.offsets("t", LATEST, 9) == (0, [end, 0])
        assert await old.offsets("t", EARLIEST) == (0, [0])
        assert await old.offsets("none", LATEST) == (0, [0])
        assert await old.offsets("none", EARLIEST) == (0, [0])
        assert await old.offsets("none", 0) == (0, [])
        assert await old.offsets("t", LATEST, partition=1) == (3, [])
        await produced(today, batch(b"next"))
        assert await old.consume("t", end) == ([b"next"], end + 14)
        # No message begins there.
        assert [(await old.fetch("t", one))[0] for one in (-1, 1, 12, end + 15)] == [1] * 4


async def test_a_consumer_goes_on_after_a_restart() -> None:
    """Its offset is in ZooKeeper or a file of its own: it has to mean the same message."""
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        await create(today)
        await produced(today, batch(*FIVE, codec=Codec.GZIP))
        _error, messages = await old.fetch("t", 0, 30)
        read, offset = read_07(messages)
        assert read == FIVE[:2]
    async with site_07(disk=disk) as site, site.connect() as today, site.connect_07() as old:
        old.produce("t", message_07(b"later"))
        await values_of(today, 5, 1)
        wanted = [*FIVE[2:], b"later"]
        assert await old.consume("t", offset) == (wanted, offset + _sizes(wanted))


async def test_a_topic_is_created_by_its_first_message() -> None:
    """As brokers of 0.7 did, if auto.create.topics.enable allows it."""
    async with site_07({"num.partitions": "3"}) as site, site.connect_07() as old:
        old.produce("fresh", message_07(b"x"), partition=-1)
        old.produce("fresh", message_07(b"y"), partition=2)
        found = await old.multifetch([fetch_part("fresh", one, 0) for one in range(4)])
        assert [error for error, _messages in found] == [0, 0, 0, 3]
        read = [payload for _error, messages in found for payload in read_07(messages)[0]]
        assert sorted(read) == [b"x", b"y"]
        assert b"y" in read_07(found[2][1])[0]


async def test_messages_that_are_too_large_are_dropped_and_others_end_the_connection() -> None:
    """As in 0.7, whose PRODUCE has no answer that could say it."""
    settings = {"auto.create.topics.enable": "false", "message.max.bytes": "1000"}
    async with site_07(settings) as site, site.connect() as today:
        await create(today)
        for body in (
            produce_part("t", 0, message_07(b"no gzip", 1, 1)),
            produce_part("t", 7, message_07(b"x")),
            produce_part("none", 0, message_07(b"x")),
            produce_part("t", 0, message_07(b"x")[:-1] + b"y"),
            b"\0",
        ):
            async with site.connect_07() as old:
                old.produce("t", message_07(b"x" * 2_000))
                old.produce("t", message_07(b"kept"))
                old.send(0, body)
                with pytest.raises(EOFError):
                    await old.answer()
        assert await values_of(today, 0, 5) == [b"kept"] * 5


async def test_a_client_of_today_is_not_understood() -> None:
    """Its first request, for the versions, ends the connection; the others go on."""
    async with site_07() as site, site.connect_07() as old, site.connect_07() as wrong:
        wrong.send(18, b"\0\0\0\0\0\1\xff\xff")
        with pytest.raises(EOFError):
            await wrong.answer()
        assert await old.offsets("none", LATEST) == (0, [0])

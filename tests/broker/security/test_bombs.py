"""Batches that decompress to far more than they are: what they cost a broker, before and after."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.compression import CODECS, Codec
from ottla.protocol.records.varint import encode_varint
from tests.broker.security.test_login import log_in
from tests.broker.support.requests import create, produce, produced
from tests.protocol.records.broken import batch_around, sized
from tests.support.hostile.secure_process import HOST, SecureProcess
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
# Snappy does not get smaller than a twentieth: what fits into a request is no bomb.
SIZES = {Codec.GZIP: 256, Codec.SNAPPY: 20, Codec.LZ4: 200, Codec.ZSTD: 256}
AT_ONCE = 8
# What is kept as it is, is read in pieces; what is rewritten is in memory whole, four at a time.
GROWTH_MIB_MAX = {"producer": 64.0, "zstd": 192.0}


def _bomb(codec: Codec) -> bytes:
    size = SIZES[codec] * MIB
    record = sized(b"\x00\x00\x00\x01" + encode_varint(size) + bytes(size) + b"\x00")
    return batch_around(record, 1, codec)


def _highest_mib(broker: SecureProcess) -> float:
    status = Path(f"/proc/{broker.process_id}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureProcess]:
    with SecureProcess(tmp_path_factory.mktemp("bombs") / "data") as running:
        yield running


async def _one(broker: SecureProcess, topic: str, bomb: bytes) -> int:
    async with RawClient(HOST, broker.port) as client:
        await log_in(client)
        answer = await produced(client, bomb, topic=topic)
        return int(answer.error_code)


@pytest.mark.parametrize("stored_as", ["producer", "zstd"])
@pytest.mark.parametrize("codec", CODECS[1:])
async def test_bombs_of_a_user_take_little_memory(
    broker: SecureProcess, codec: Codec, stored_as: str
) -> None:
    """Tried: eight at once, for a topic that keeps batches as they are and one that rewrites."""
    bomb = _bomb(codec)
    assert len(bomb) < MIB
    topic = f"{codec.name}-{stored_as}"
    async with RawClient(HOST, broker.port) as client:
        await log_in(client)
        assert (await create(client, topic, compression_type=stored_as)).error_code == 0
    before_mib = _highest_mib(broker)
    codes = await asyncio.gather(*(_one(broker, topic, bomb) for _ in range(AT_ONCE)))
    grown_mib = _highest_mib(broker) - before_mib

    is_bomb = codec is not Codec.SNAPPY
    assert set(codes) == {ErrorCode.MESSAGE_TOO_LARGE if is_bomb else ErrorCode.NONE}
    assert grown_mib < GROWTH_MIB_MAX[stored_as], (before_mib, grown_mib)


@pytest.mark.parametrize("codec", CODECS[1:])
async def test_bombs_of_strangers_are_not_looked_at(broker: SecureProcess, codec: Codec) -> None:
    """Tried: a produce request instead of a login."""
    request = produce(_bomb(codec))
    before_mib = _highest_mib(broker)
    for _ in range(AT_ONCE):
        async with RawClient(HOST, broker.port) as client:
            client.send(9, request)
            with pytest.raises(EOFError):
                await client.frame()
    assert _highest_mib(broker) - before_mib < 8

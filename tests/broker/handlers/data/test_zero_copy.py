"""A broker's own answers to fetches: from the page cache to the socket, inside the kernel.

What the transports do by themselves is in ``tests/broker/network/test_zero_copy.py``.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.errors import ErrorCode
from tests.broker.support.requests import batch, create, fetch, fetched, produced
from tests.support.broker_process import BrokerProcess
from tests.support.counted_net import CountedNet
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient
from tests.support.tracing import can_trace

if TYPE_CHECKING:
    from pathlib import Path

RECORD_BYTES, RECORDS = 300_000, 3
# Headers of batches, where the broker looks for the offset that was asked for, and no more.
LOOKED_AT_BYTES_MAX = 16_384
# Headers of answers, and answers without records.
WRAPPING_BYTES_MAX = 4_000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sendfile")
@pytest.mark.requirement("NET-10", "NET-11")
@pytest.mark.parametrize("client_id", ["raw", None])
@pytest.mark.parametrize("zero_copy", ["true", "false"])
async def test_records_take_the_way_that_the_setting_says(
    tmp_path: Path, zero_copy: str, client_id: str | None
) -> None:
    """A broker that copies every record through its memory answers the same, only slower: so what
    leaves by which call is counted. A null client id takes the long path through the broker."""
    net, offload = CountedNet(), RealOffload(2)
    settings = {"log.dirs": str(tmp_path), "ottla.fetch.zero.copy": zero_copy}
    async with (
        running_broker(settings, RealDisk(offload), net=net) as running,
        running.connect() as client,
    ):
        await create(client)
        for _ in range(RECORDS):
            await produced(client, batch(b"x" * RECORD_BYTES))
        await fetched(client, RECORDS, max_wait_ms=0)
        net.sendfile_bytes = net.memory_bytes = 0
        request = fetch(0)
        client.send(12, request, client_id)
        answer = await client.answer(12, request)
    offload.close()

    got_bytes = len(bytes(answer.responses[0].partitions[0].records))
    assert got_bytes > RECORD_BYTES * RECORDS
    if zero_copy == "true":
        assert net.sendfile_bytes == got_bytes
        assert net.memory_bytes < WRAPPING_BYTES_MAX
    else:
        assert net.sendfile_bytes == 0
        assert net.memory_bytes > got_bytes


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sendfile")
@pytest.mark.requirement("NET-13")
@pytest.mark.parametrize("client_id", ["raw", None])
async def test_a_platform_without_sendfile_gives_the_same_bytes(
    tmp_path: Path, client_id: str | None
) -> None:
    """One broker, one log, three fetches: by sendfile, then without it on a connection that has it
    no more, and on one that never had it. The last two go through the broker's memory."""
    net, offload = CountedNet(), RealOffload(2)
    frames, by_memory = [], []
    async with (
        running_broker({"log.dirs": str(tmp_path)}, RealDisk(offload), net=net) as running,
        running.connect() as first,
        running.connect() as second,
    ):
        await create(first)
        for _ in range(RECORDS):
            await produced(first, batch(b"x" * RECORD_BYTES))
        for client, has_sendfile in ((first, True), (first, False), (second, False)):
            net.has_sendfile, net.memory_bytes = has_sendfile, 0
            client.send(12, fetch(0), client_id)
            # Behind the correlation id.
            frames.append((await client.frame())[4:])
            by_memory.append(net.memory_bytes > RECORD_BYTES * RECORDS)
    offload.close()

    assert len(frames[0]) > RECORD_BYTES * RECORDS
    assert frames[0] == frames[1] == frames[2]
    assert by_memory == [False, True, True]


@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
@pytest.mark.requirement("NET-10")
async def test_the_kernel_is_told_to_send_the_segment_and_the_broker_does_not_read_it(
    tmp_path: Path,
) -> None:
    """Zero copy is a claim about system calls: these are the ones of a broker process."""
    trace = tmp_path / "trace"
    calls = "trace=sendfile,read,readv,pread64,preadv,preadv2,mmap"
    launcher = ("strace", "-D", "-f", "-y", "-e", calls, "-o", str(trace))
    with BrokerProcess(tmp_path / "data", launcher=launcher) as broker:
        host, _, port = broker.address.rpartition(":")
        async with RawClient(host, int(port)) as client:
            await create(client)
            for _ in range(RECORDS):
                await produced(client, batch(b"x" * RECORD_BYTES))
            before = len(trace.read_text().splitlines())
            answer = await fetched(client, 0)
    lines = [one for one in trace.read_text().splitlines()[before:] if "/t-0/" in one]
    segment = [one for one in lines if "/t-0/00000000000000000000.log>" in one]

    assert answer.error_code == ErrorCode.NONE
    assert _returned(segment, "sendfile") == len(bytes(answer.records)) > RECORD_BYTES * RECORDS
    assert _returned(segment, "p?readv?(64|2)?") < LOOKED_AT_BYTES_MAX
    assert not [one for one in segment if re.search(r" (read|readv|mmap)\(", one)]


def _returned(lines: list[str], call: str) -> int:
    """The sum of what the calls of that name returned."""
    found = [re.search(rf"\b{call}\(.* = (\d+)$", line) for line in lines]
    return sum(int(one.group(one.lastindex or 1)) for one in found if one is not None)

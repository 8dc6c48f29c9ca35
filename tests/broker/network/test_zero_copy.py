"""File regions on real sockets: by sendfile or through memory, the bytes are the same."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.broker.network.settings import ListenerSpec
from ottla.broker.network.transport import BufferedTransport, PlaintextTransport
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.ports import FileRegion
from tests.support.loops import on_each_reader
from tests.support.network_site import LOOPBACK, Site
from tests.support.tracing import can_trace
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.broker.engine.context import ReplySlot
    from ottla.protocol.ports import File

CONTENT = random.Random(7).randbytes(3_000_000)
# Of the benchmark: in hundredths, as its table has them.
PIECES = 100
REGIONS = [(0, 100), (5, 70_000), (1_000, 1_048_576), (0, 3_000_000), (2_999_999, 1)]


def segment(path: Path) -> File:
    """A file that holds the content."""
    offload = RealOffload(1)
    file = RealDisk(offload).open(str(path / "segment"), create=True)
    offload.close()
    file.append([CONTENT])
    return file


class RegionToy:
    """Serves the regions of one file, each between some bytes."""

    def __init__(self, site: Site, file: File) -> None:
        self.file = file
        site.toy.region = self.region  # type: ignore[attr-defined]

    def region(self, argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        position, count = map(int, argument.split(b"-"))
        reply.send([b"header", FileRegion(self.file, position, count), b"trailer"])


@pytest.mark.requirement("NET-11")
@on_each_reader
async def test_both_transports_answer_with_identical_bytes(tmp_path: Path) -> None:
    """The buffered path serves TLS and platforms without sendfile; clients must see no
    difference."""
    specs = [
        ListenerSpec("SENDFILE", LOOPBACK, transport=PlaintextTransport),
        ListenerSpec("BUFFERED", LOOPBACK, transport=BufferedTransport),
    ]
    async with Site(specs=specs) as site:
        RegionToy(site, segment(tmp_path))
        clients = [await site.connect("SENDFILE"), await site.connect("BUFFERED")]
        for client in clients:
            client.send(*(b"region:%d-%d" % region for region in REGIONS))

        for position, count in REGIONS:
            expected = b"header" + CONTENT[position : position + count] + b"trailer"
            for client in clients:
                assert await client.answer() == expected


@pytest.mark.parametrize("transport", [PlaintextTransport, BufferedTransport])
@on_each_reader
async def test_file_cut_under_an_answer_closes_the_connection(
    tmp_path: Path, transport: type[PlaintextTransport] | type[BufferedTransport]
) -> None:
    """The client must see a broken connection, never a frame of another length (S-20)."""
    async with Site(specs=[ListenerSpec("ONLY", LOOPBACK, transport=transport)]) as site:
        file = segment(tmp_path)
        RegionToy(site, file)
        client = await site.connect("ONLY")
        file.truncate(1_000)
        client.send(b"region:0-2000", b"echo:after")
        stream = await client.reader.read(-1)

        assert stream.startswith(struct.pack(">i", 2013) + b"header" + CONTENT[:900])
        assert len(stream) <= 4 + 6 + 1_000


@on_each_reader
async def test_deleted_segment_is_still_sent(tmp_path: Path) -> None:
    """Retention may remove a file while an answer from it is on its way."""
    async with Site() as site:
        toy = RegionToy(site, segment(tmp_path))
        client = await site.connect()
        client.send(b"region:0-3000000")
        await site.until(lambda: site.toy.requests)
        (tmp_path / "segment").unlink()
        del toy.file

        assert (await client.answer())[6:-7] == CONTENT


def traced_fetch(tmp_path: Path, transport: str) -> tuple[bytes, str, str]:
    """Fetch all content from a server under strace: the answer, its calls, its descriptor."""
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    trace = tmp_path / "trace"
    watched = "trace=sendfile,read,pread64,preadv,preadv2,mmap"
    program = ["-m", "tests.support.region_server", str(path), transport]
    with subprocess.Popen(
        ["strace", "-f", "-y", "-e", watched, "-o", str(trace), sys.executable, *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = int(server.stdout.readline().split()[0])
        with socket.create_connection(("127.0.0.1", port)) as client:
            request = b"0:%d" % len(CONTENT)
            client.sendall(struct.pack(">i", len(request)) + request)
            with client.makefile("rb") as stream:
                answer = stream.read(4 + 13 + len(CONTENT))
        server.stdin.close()
    return answer[10:-7], trace.read_text(), f"<{path}>"


@pytest.mark.requirement("NET-10")
@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
@pytest.mark.parametrize("transport", ["sendfile", "buffered"])
def test_plaintext_region_reaches_the_socket_without_passing_through_the_process(
    tmp_path: Path, transport: str
) -> None:
    """Zero copy is a claim about system calls, so they are what is looked at."""
    content, trace, segment_mark = traced_fetch(tmp_path, transport)
    touching = [line for line in trace.splitlines() if segment_mark in line]
    calls = {line.split("(")[0].split()[-1] for line in touching}

    assert content == CONTENT
    assert calls == ({"sendfile"} if transport == "sendfile" else {"pread64"})


@pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")
@pytest.mark.requirement("NET-12")
def test_benchmark_prints_copies_and_context_switches_of_both_ways(tmp_path: Path) -> None:
    """Four changes of mode for a piece that is read and sent, two for one that is handed over: as
    many as the system calls that strace has seen of the benchmark make."""
    trace = tmp_path / "trace"
    strace = ["strace", "-f", "-y", "-e", "trace=pread64,sendmsg,sendto,sendfile", "-o", str(trace)]
    ran = subprocess.run(
        [*strace, sys.executable, "-m", "benchmarks.zero_copy", str(PIECES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = [one for one in trace.read_text().splitlines() if " resumed>" not in one]
    reads = sum("pread64(" in one and "/segment-" in one for one in lines)
    sends = sum("sendmsg(" in one or ("sendto(" in one and ", 65536, " in one) for one in lines)
    hand_overs = sum("sendfile(" in one and "/segment-" in one for one in lines)
    printed = {row[:28].strip(): row[28:].split() for row in ran.stdout.splitlines()}

    assert printed["one fetch of 64 KiB"] == ["read", "and", "send", "sendfile"]
    assert printed["copies of the data"] == ["4", "2"]
    switches = [float(one) for one in printed["context switches"]]
    assert switches == [2 * (reads + sends) / PIECES, 2 * hand_overs / PIECES]
    assert [round(one) for one in switches] == [4, 2]

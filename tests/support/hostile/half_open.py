"""A stranger with many connections that never log in.

``python -m tests.support.hostile.half_open``; arguments: the port of a SASL listener without and
of one with TLS, how many connections, how many of them per second, and which: ``all`` kinds or
``silent`` ones. It says ``begun N`` when all
were tried, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import StreamWriter
    from collections.abc import Awaitable, Callable

    Kind = Callable[[int, str], Awaitable[StreamWriter]]

# The first bytes of a TLS hello that says 512 bytes follow.
HELLO = bytes.fromhex("16030102000100") + bytes(60)
SOURCES = 32


async def _connected(port: int, source: str, first: bytes) -> StreamWriter:
    _reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    writer.write(first)
    return writer


def sending(first: bytes) -> Kind:
    """A stranger that sends so much and no more."""
    return lambda port, source: _connected(port, source, first)


async def dripping(port: int, source: str) -> StreamWriter:
    """A stranger that sends a byte per second of a frame that may be as long."""
    writer = await _connected(port, source, b"")

    async def drip() -> None:
        with contextlib.suppress(OSError):
            for byte in itertools.chain((12_000).to_bytes(4), itertools.repeat(0)):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)

    _KEPT.add(asyncio.create_task(drip()))
    return writer


async def shaken(port: int, source: str) -> StreamWriter:
    """A stranger that shakes hands and says nothing more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, local_addr=(source, 0), ssl=context, ssl_handshake_timeout=60
    )
    return writer


WITHOUT_TLS: list[Kind] = [
    sending(b""),
    sending(b"\0"),
    sending(b"\0\0\0\x20"),
    sending(b"\x7f\xff\xff\xff"),
    dripping,
]
WITH_TLS: list[Kind] = [sending(HELLO), shaken]
_KEPT: set[object] = set()


async def _one(kind: Kind, port: int, source: str) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        _KEPT.add(await kind(port, source))


async def main(which: str, plain_port: int, tls_port: int, count: int, per_second: int) -> None:
    """Open all of them, then keep what the broker leaves open."""
    kinds = [(kind, plain_port) for kind in WITHOUT_TLS] + [(kind, tls_port) for kind in WITH_TLS]
    if which == "silent":
        del kinds[1:]
    begun = []
    for number in range(count):
        kind, port = kinds[number % len(kinds)]
        source = f"127.0.1.{1 + number % SOURCES}"
        begun.append(asyncio.create_task(_one(kind, port, source)))
        if number % 10 == 9:
            await asyncio.sleep(10 / per_second)
    print("begun", count, flush=True)
    await asyncio.gather(*begun)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[5], *map(int, sys.argv[1:5])))

"""One log, fetched over a plaintext and over an encrypted listener of one broker."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Self

import pytest

from ottla.broker.network.transport import BufferedTransport, PlaintextTransport
from ottla.broker.system.real_disk import RealDisk, RealOffload
from tests.broker.support.requests import batch, create, fetch, produced
from tests.support import certificates
from tests.support.in_process import running_broker
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
    "ssl.keystore.location": certificates.store("broker"),
    "ssl.truststore.location": certificates.trust(),
}


class TlsClient(RawClient):
    """A raw client that encrypts."""

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=certificates.trust())
        self._reader, self._writer = await asyncio.open_connection(
            self._host, self._port, ssl=context
        )
        return self


@pytest.mark.requirement("NET-13", "NET-14")
async def test_an_encrypted_fetch_gives_the_same_bytes_through_the_buffered_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both transports get the same region of the same file: one has the kernel send it, the other
    one reads and encrypts it."""
    calls: dict[type, list[tuple[str, int, int]]] = {PlaintextTransport: [], BufferedTransport: []}
    for kind in calls:
        transfer = kind.transfer_from  # type: ignore[attr-defined]

        def noted(
            self: Any,
            file: Any,
            position: int,
            count: int,
            kind: type = kind,
            transfer: Any = transfer,
        ) -> int:
            calls[kind].append((file.path, position, count))
            return int(transfer(self, file, position, count))

        monkeypatch.setattr(kind, "transfer_from", noted)
    offload = RealOffload(2)
    settings = {**SETTINGS, "log.dirs": str(tmp_path)}
    async with running_broker(settings, RealDisk(offload)) as running:
        ports = {
            name: running.broker.metadata.endpoints(name)[0].port for name in ("PLAINTEXT", "SSL")
        }
        async with (
            RawClient("127.0.0.1", ports["PLAINTEXT"]) as plain,
            TlsClient("127.0.0.1", ports["SSL"]) as encrypted,
        ):
            await create(plain)
            for _ in range(8):
                await produced(encrypted, batch(b"x" * 50_000))
            frames = []
            for client in (plain, encrypted):
                client.send(12, fetch(0))
                # Behind the correlation id.
                frames.append((await client.frame())[4:])
    offload.close()

    assert len(frames[0]) > 400_000
    assert frames[0] == frames[1]
    first, second = calls[PlaintextTransport][0], calls[BufferedTransport][0]
    assert first == second
    assert first[0].endswith("/t-0/00000000000000000000.log")

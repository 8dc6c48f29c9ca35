"""Records in the Confluent wire format are shown as JSON, by the schemas of a registry."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import fastavro
import pytest

import ottla
from ottla.client.cli.web import registry as decoding
from ottla.client.cli.web.registry import RegistryDecoder
from ottla.client.console.record_runs import SeenRecord
from ottla.wire.clock import RealClock
from tests.client.cli.records.test_schemas import ORDER, Registry
from tests.client.console.site import console_of

if TYPE_CHECKING:
    from collections.abc import Iterator


# A message of Protobuf, the first one within the third one of its file.
LINE = bytes.fromhex("000000000a" + "040200" + "0803")


class _StandingClock(RealClock):
    """A clock that the test moves."""

    ms = 0.0

    def now_ms(self) -> float:
        """The test's time."""
        return self.ms


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry with a few schemas."""
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _framed(schema_id: int, content: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4) + content


def _avro(number: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), {"id": number})
    return _framed(7, stream.getvalue())


def _record(value: bytes) -> SeenRecord:
    return SeenRecord("t", 0, 0, 0, None, value, ())


async def test_a_page_shows_what_the_schema_says(
    brokers: ottla.Cluster, registry: Registry
) -> None:
    """Filters see the fields; the bytes stay as they are for a download of the value."""
    brokers.create_topic("schemas", partitions=1)
    async with ottla.Producer(brokers.bootstrap_servers) as producer:
        for value in (_avro(41), _avro(42), _framed(8, b'{"id": 43}'), LINE, b"plain"):
            await producer.send("schemas", value)
    decoder = RegistryDecoder(registry.url, RealClock())
    async with console_of(brokers.bootstrap_servers, decode=decoder.decode) as browser:
        path = "/api/topics/schemas/messages?from=oldest"
        found = (await browser.get(path)).json()
        fitting = (await browser.get(f"{path}&filter=value.id>=42")).json()
        content = (await browser.get("/topics/schemas/content?offset=0")).content

    texts = [row["value"]["text"] for row in found["records"]]
    assert [text.replace("\n", "").replace(" ", "") for text in texts] == [
        '{"id":41,"note":null}',
        '{"id":42,"note":null}',
        '{"id":43}',
        '{"n":3}',
        "plain",
    ]
    assert [row["offset"] for row in fitting["records"]] == [1, 2]
    assert content == _avro(41)
    assert [path for path, _login in registry.asked].count("/schemas/ids/7") == 1


async def test_a_record_that_cannot_be_decoded_breaks_no_page(registry: Registry) -> None:
    """It stays as it is: data that does not fit, and a schema that the registry does not have."""
    clock = _StandingClock()
    decoder = RegistryDecoder(registry.url, clock)
    wrong, unknown = _record(_framed(7, b"")), _record(_framed(99, b"x"))

    assert await decoder.decode(wrong) == wrong
    for _ in range(3):
        assert await decoder.decode(unknown) == unknown
    assert [path for path, _login in registry.asked].count("/schemas/ids/99") == 1
    clock.ms += decoding.REST_MS + 1
    assert await decoder.decode(unknown) == unknown
    assert [path for path, _login in registry.asked].count("/schemas/ids/99") == 2

"""A value that takes long to decode does not keep the pages of others waiting."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.cli.records.avro_schemas import AvroSchema
from ottla.client.cli.records.schemas import (
    AVRO,
    PROTOBUF,
    ToJson,
    WrittenSchema,
    as_json,
    parsed_schema,
)
from ottla.client.cli.run import CommandError
from ottla.client.cli.web import decoding_process, decoding_worker
from ottla.client.cli.web.decoding_process import DecodingProcess
from ottla.client.cli.web.decoding_worker import ANSWER, REQUEST, head_of
from ottla.client.cli.web.registry import LOOP_BYTES_MAX, RegistryDecoder
from ottla.wire.clock import RealClock
from tests.client.cli.records.protobuf_files import NOTE_FILE, ORDER_FILE
from tests.client.console.test_registry import _framed, _record

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

MIB = 1 << 20
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "next", "type": ["null", "Node"]},
        {"name": "children", "type": {"type": "array", "items": "Node"}},
    ],
}
LONGS = {"type": "array", "items": "long"}


def _schema(document: Any) -> WrittenSchema:
    return parsed_schema(7, AVRO, json.dumps(document), {})


def _longs(count: int) -> bytes:
    """So many zeros."""
    block, left = bytearray(), count << 1
    while left > 0x7F:
        block.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*block, left]) + bytes(count + 1)


class _Registry:
    """One schema, whatever the id."""

    def __init__(self, schema: WrittenSchema) -> None:
        self._schema = schema

    async def by_id(self, schema_id: int) -> WrittenSchema:
        return self._schema


@pytest.fixture
def process() -> Iterator[DecodingProcess]:
    """Without a child until the first value."""
    found = DecodingProcess(RealClock())
    yield found
    found.close()


def _decoder(monkeypatch: pytest.MonkeyPatch, document: Any) -> RegistryDecoder:
    decoder = RegistryDecoder("http://127.0.0.1:1", RealClock())
    monkeypatch.setattr(decoder, "_registry", _Registry(_schema(document)))
    return decoder


@pytest.mark.parametrize(
    ("document", "data"),
    [
        (NODE, b"\x00\xc0\xa9\x28" + b"\x00\x00" * 330_000 + b"\x00"),
        ({"type": "array", "items": "null"}, b"\x80\x80\x80\x01" + bytes(MIB)),
    ],
    ids=["a tree", "nulls"],
)
async def test_others_go_on_while_a_crafted_megabyte_is_decoded(
    monkeypatch: pytest.MonkeyPatch, document: Any, data: bytes
) -> None:
    """It takes seconds, in which the loop would not turn once."""
    decoder, turns = _decoder(monkeypatch, document), 0
    decoding = asyncio.ensure_future(decoder.decode(_record(_framed(7, data))))
    while not decoding.done():
        await asyncio.sleep(0.005)
        turns += 1
    decoder.close()

    assert turns > 10
    assert decoding.exception() is None


async def test_a_large_value_is_decoded_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a small one here, which takes a tenth of the time."""
    decoder = _decoder(monkeypatch, LONGS)
    large, small = _record(_framed(7, _longs(LOOP_BYTES_MAX))), _record(_framed(7, _longs(3)))
    monkeypatch.setattr(AvroSchema, "to_json", lambda *_: b"here")

    assert (await decoder.decode(small)).value == b"here"
    assert json.loads((await decoder.decode(large)).value or b"") == [0] * LOOP_BYTES_MAX
    decoder.close()


async def test_a_value_has_a_time(process: DecodingProcess) -> None:
    """The child is ended, and the next value gets another one."""
    hasty = DecodingProcess(RealClock(), limit_ms=0.0)
    with pytest.raises(CommandError, match="take longer than 0 ms"):
        await hasty.to_json(_schema(LONGS), _longs(MIB))
    hasty.close()
    for _ in range(2):
        assert await process.to_json(_schema(LONGS), _longs(2)) == b"[0,0]"


async def test_a_child_that_has_ended_is_replaced(process: DecodingProcess) -> None:
    """As when the system ends it for its memory."""
    schema = _schema(LONGS)
    await process.to_json(schema, _longs(1))
    assert process.process_id is not None
    os.kill(process.process_id, signal.SIGKILL)
    with pytest.raises(CommandError, match="has ended"):
        await process.to_json(schema, _longs(1))

    assert await process.to_json(schema, _longs(1)) == b"[0]"


async def test_a_child_whose_visitor_leaves_while_it_starts_is_kept(
    process: DecodingProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each such visit would leave a process behind."""
    begun = asyncio.Event()
    loop, start = asyncio.get_running_loop(), decoding_process._start

    def told() -> subprocess.Popen[bytes]:
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.05)
        return start()

    monkeypatch.setattr(decoding_process, "_start", told)
    first = asyncio.ensure_future(process.to_json(_schema(LONGS), _longs(1)))
    await begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    kept = process.process_id
    assert kept is not None
    assert await process.to_json(_schema(LONGS), _longs(1)) == b"[0]"
    assert process.process_id == kept


async def test_data_of_another_schema_is_refused(process: DecodingProcess) -> None:
    """With the sentence that it has here."""
    registry: Any = _Registry(_schema({"type": "array", "items": "null"}))
    to_json: ToJson = process.to_json
    with pytest.raises(CommandError, match="values that take no bytes"):
        await as_json(registry, _framed(7, bytes.fromhex("feffffffffffffffff01")), to_json)


def test_the_worker_refuses_what_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte of an enum can be a symbol of any length."""
    monkeypatch.setattr(decoding_worker, "JSON_BYTES_MAX", 1_000)
    enum = {"type": "enum", "name": "E", "symbols": ["A" * 500]}
    head, data = head_of(_schema({"type": "array", "items": enum})), _longs(3)
    sink = io.BytesIO()
    decoding_worker.serve(io.BytesIO(REQUEST.pack(len(head), len(data)) + head + data), sink)
    is_json, _ = ANSWER.unpack_from(sink.getvalue())

    assert not is_json
    assert b"bytes of JSON" in sink.getvalue()


def test_a_schema_tells_how_much_a_byte_can_become() -> None:
    """The longest name of Avro; all fields of a message of Protobuf; anything if it recurses."""
    name = "n" * 300
    fields = [{"name": name, "type": "int", "doc": "d" * 900}]

    long_named = AvroSchema(json.dumps({"type": "record", "name": "R", "fields": fields}), [])
    protobuf = parsed_schema(8, PROTOBUF, ORDER_FILE, {"note.proto": NOTE_FILE}).parsed

    assert AvroSchema('"long"', []).weight < 10
    assert 300 < long_named.weight < 400
    assert AvroSchema(json.dumps(NODE), []).weight > MIB
    assert len("order_id" + "note" + "at") < protobuf.weight < 60

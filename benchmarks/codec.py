"""``python -m benchmarks record_codec``: batches of a thousand records, made and read.

Both twins of the record codec and aiokafka's compiled one in turns, so that whatever else the
machine does meets all of them. What is counted is CPU time of this thread; the checksum is always
part of it, and so is letting go of the result, whose memory stays with the process as it does in
our clients: page faults would count or not by what lies behind it on the heap. Aims at 100 bytes,
in million records a second: 101 encoded from a list, 42 decoded to rows, 96 to columns, where
copying and checksums alone ran half as fast again as on the machine at hand: ``checksum`` is beside
them for that. The rows of that aim decoded their fields only when they were read: with every value
read it was 17.6, as ``read_rows`` does.
"""

from __future__ import annotations

import importlib
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.process.allocator import keep_freed_memory
from ottla.protocol.records import codec_pure
from ottla.protocol.records.batch import check_crc, parse_batch
from ottla.protocol.records.builder import finish_batch
from ottla.protocol.records.codec import COMPILED_NAME
from ottla.protocol.records.columns import Columns
from ottla.protocol.records.record import Headers, record_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.codec import Twin
    from ottla.protocol.records.record import Entry

COUNT = 1_000
ROUNDS = 41
SAMPLE_S = 0.004
TIMESTAMP = 1_700_000_000_000
SIZES = {"100b": 100, "1k": 1024}


class Row(NamedTuple):
    """A record as our consumer returns it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def _ours(twin: Twin, size: int) -> dict[str, Callable[[], object]]:
    values: list[bytes | None] = [bytes([number % 256]) * size for number in range(COUNT)]
    entries: list[Entry] = [
        (TIMESTAMP + number, b"key-%d" % number, value, (("trace", b"0123456789abcdef"),))
        for number, value in enumerate(values)
    ]
    data = finish_batch(twin.encode_values(values, TIMESTAMP))
    columns = Columns.of([(0, TIMESTAMP, None, value, ()) for value in values])

    def opened() -> tuple[Any, Buffer]:
        # As the consumer opens them: the batch's own bytes.
        batch = parse_batch(data)
        assert check_crc(batch)
        return batch, record_view(batch)

    def read_rows() -> object:
        value = None
        for row in twin.decode_as(*opened(), Row, ("topic", 0), 0):
            value = row.value
        return value

    return {
        "encode_values": lambda: finish_batch(twin.encode_values(values, TIMESTAMP)),
        "encode_columns": lambda: finish_batch(twin.encode_columns(columns, 0, COUNT)),
        "encode_entries_with_headers": lambda: finish_batch(twin.encode_entries(entries)),
        "decode_rows": lambda: twin.decode_as(*opened(), Row, ("topic", 0), 0),
        "read_rows": read_rows,
        "decode_values": lambda: twin.decode_values(*opened()),
        "decode_columns": lambda: twin.decode_columns(*opened()),
        "checksum": lambda: check_crc(parse_batch(data)),
    }


def _aiokafka(size: int) -> dict[str, Callable[[], object]]:
    module = importlib.import_module("aiokafka.record._crecords.default_records")
    values = [bytes([number % 256]) * size for number in range(COUNT)]

    def encode() -> bytes:
        builder = module.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
        for offset, value in enumerate(values):
            builder.append(offset, TIMESTAMP, None, value, [])
        return bytes(builder.build())

    data = encode()

    def decode() -> list[object]:
        batch = module.DefaultRecordBatch(data)
        assert batch.validate_crc()
        return [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in batch]

    return {"encode_values": encode, "decode_rows": decode}


def _subjects() -> dict[str, Callable[[int], dict[str, Callable[[], object]]]]:
    subjects: dict[str, Callable[[int], dict[str, Callable[[], object]]]] = {
        "pure": lambda size: _ours(codec_pure, size)
    }
    try:
        compiled: Twin = importlib.import_module(COMPILED_NAME)
        subjects["compiled"] = lambda size: _ours(compiled, size)
    except ImportError:
        pass
    try:
        importlib.import_module("aiokafka.record._crecords.default_records")
        subjects["aiokafka"] = _aiokafka
    except ImportError:
        pass
    return subjects


def _seconds(work: Callable[[], object], repeats: int) -> float:
    started = time.thread_time()
    for _ in range(repeats):
        work()
    return (time.thread_time() - started) / repeats


def record_codec() -> Mapping[str, float]:
    """Million records a second of one core, batches of 1000 (aims at 100 B: 101, 42, 96)."""
    keep_freed_memory()
    works = {
        f"{size_name}_{name}_{subject}": work
        for size_name, size in SIZES.items()
        for subject, made in _subjects().items()
        for name, work in made(size).items()
    }
    repeats = {name: max(1, int(SAMPLE_S / _seconds(work, 2))) for name, work in works.items()}
    samples: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            samples[name].append(_seconds(work, repeats[name]))
    return {
        name: COUNT / statistics.median(samples[name]) / 1e6
        for name in sorted(works)
        if not name.endswith("checksum_pure")
    }


CODEC_MEASUREMENTS: dict[str, Callable[[], Mapping[str, float]]] = {"record_codec": record_codec}

"""``ottla log dump FILE``: what stands in a segment file, batch by batch.

Reads only. For people who want to know why a partition is offline, or what a producer really sent.
Exit status 1 if the file ends in something that is no whole batch, or a checksum is wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.log.scan import BatchScan
from ottla.broker.real import RealDisk, RealOffload
from ottla.client.cli.arguments import Parser
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import RecordBatch, check_crc
from ottla.protocol.records.record import Record, read_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, object]


def parser() -> Parser:
    """The command line, as ``ottla log --help`` shows it."""
    made = Parser(prog="ottla log", description="Look into log files.")
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    dump = verbs.add_parser("dump", help="print the batches of a segment file")
    dump.add_argument("file", help="a .log file of a data directory")
    dump.add_argument("--records", action="store_true", help="print every record as well")
    dump.add_argument("--format", choices=("text", "json"), default="text")
    return made


def describe_batch(position: int, batch: RecordBatch) -> Row:
    """The header in Kafka's words."""
    return {
        "position": position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "bytes": batch.size_bytes,
        "leader_epoch": batch.leader_epoch,
        "codec": batch.codec.name.lower(),
        "timestamp_type": batch.timestamp_type.name.lower(),
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "crc_ok": check_crc(batch),
    }


def describe_record(record: Record) -> Row:
    """One record; bytes that are no text are shown escaped."""
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _shown(record.key),
        "value": _shown(record.value),
        "headers": [[name, _shown(value)] for name, value in record.headers],
    }


def _shown(value: bytes | memoryview | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "backslashreplace")


def dump_rows(path: str, *, records: bool) -> Iterator[Row]:
    """A row per batch (and per record), then one with "problem" if the end is spoiled.

    Raises OSError."""
    file = RealDisk(RealOffload()).open(path)
    scan = BatchScan(file, 0, file.size_bytes)
    for position, batch in scan:
        row = describe_batch(position, batch)
        if records and row["crc_ok"] and not batch.is_control:
            try:
                row["content"] = [describe_record(record) for record in read_records(batch)]
            except KafkaError as error:
                row["problem"] = error.message
        yield row
    if scan.problem is not None:
        yield {"position": scan.position, "problem": scan.problem}


def write_row(row: Row, how: str) -> None:
    """One line for people, or one JSON document."""
    if how == "json":
        sys.stdout.write(json.dumps(row) + "\n")
        return
    content = row.pop("content", [])
    sys.stdout.write("  ".join(f"{key}={value}" for key, value in row.items()) + "\n")
    assert isinstance(content, list)
    for record in content:
        sys.stdout.write("    " + "  ".join(f"{k}={v!r}" for k, v in record.items()) + "\n")


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    arguments = parser().parse_args(argv)
    status = 0
    if not Path(arguments.file).is_file():
        sys.stderr.write(f"ottla: {arguments.file} is not a file\n")
        return 1
    try:
        for row in dump_rows(str(Path(arguments.file).resolve()), records=arguments.records):
            if "problem" in row or row.get("crc_ok") is False:
                status = 1
            write_row(row, arguments.format)
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough.
        sys.stderr.close()
        return 0
    except OSError as error:
        sys.stderr.write(f"ottla: cannot read {arguments.file}: {error.strerror}\n")
        return 1
    return status

from collections.abc import Sequence
from typing import TypeVar

from ottla.protocol.ports import Buffer
from ottla.protocol.records.batch import RecordBatch
from ottla.protocol.records.record import Record

Row = TypeVar("Row", bound=tuple[object, ...])

SOURCE_CRC: int

def value_ends(values: Sequence[object]) -> Sequence[int] | None: ...
def decode_records(batch: RecordBatch, data: Buffer) -> list[Record]: ...
def decode_as(
    batch: RecordBatch, data: Buffer, cls: type[Row], prefix: tuple[object, ...], from_offset: int
) -> list[Row]: ...
def decode_values(batch: RecordBatch, data: Buffer) -> list[bytes | None]: ...

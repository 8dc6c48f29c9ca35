"""The record codec: what is inside a batch, to bytes and back, a whole batch at a time.

There are two of it with the same functions, results and errors: a compiled one, which the package
builds where there is a compiler, and one in plain Python. The compiled one is taken if it is there
and the environment does not say ``OTTLA_PURE=1``; nothing else may depend on which it is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.protocol.records import codec_pure
from ottla.protocol.records.preference import may_be_compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.columns import Columns
    from ottla.protocol.records.record import Encoded, Entry, Record

Row = TypeVar("Row", bound=tuple[object, ...])

COMPILED_NAME = "ottla.protocol.records.codec_compiled"


class Twin(Protocol):
    """What both offer; codec_pure.py says what the functions do."""

    def value_ends(self, values: Sequence[object]) -> Sequence[int] | None: ...

    def encode_entries(self, entries: Sequence[Entry]) -> Encoded: ...

    def encode_values(self, values: Sequence[bytes | None], timestamp: int) -> Encoded: ...

    def encode_columns(self, columns: Columns, start: int, stop: int) -> Encoded: ...

    def decode_records(self, batch: RecordBatch, data: Buffer) -> list[Record]: ...

    def decode_as(
        self,
        batch: RecordBatch,
        data: Buffer,
        cls: type[Row],
        prefix: tuple[object, ...],
        from_offset: int,
    ) -> list[Row]: ...

    def decode_values(self, batch: RecordBatch, data: Buffer) -> list[bytes | None]: ...

    def decode_columns(
        self, batch: RecordBatch, data: Buffer, column_bytes_max: int = ...
    ) -> Columns: ...

    def decode_columns_in_place(
        self,
        batch: RecordBatch,
        data: Buffer,
        column_bytes_max: int = ...,
        in_place_bytes_min: int = ...,
    ) -> Columns: ...


def _choose() -> Twin:
    if may_be_compiled():
        try:
            compiled: Twin = importlib.import_module(COMPILED_NAME)
        except ImportError:
            return codec_pure
        return compiled
    return codec_pure


_twin = _choose()

IS_COMPILED = _twin is not codec_pure
"""Which of the two it is, for diagnostics."""

value_ends = _twin.value_ends
encode_entries = _twin.encode_entries
encode_values = _twin.encode_values
encode_columns = _twin.encode_columns
decode_records = _twin.decode_records
decode_as = _twin.decode_as
decode_values = _twin.decode_values
decode_columns = _twin.decode_columns
decode_columns_in_place = _twin.decode_columns_in_place

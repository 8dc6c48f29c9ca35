from collections.abc import Sequence

from ottla.protocol.records.columns import Columns
from ottla.protocol.records.record import Encoded, Entry

SOURCE_CRC: int

def encode_entries(entries: Sequence[Entry]) -> Encoded: ...
def encode_values(values: Sequence[bytes | None], timestamp: int) -> Encoded: ...
def encode_columns(columns: Columns, start: int, stop: int) -> Encoded: ...

from ottla.protocol.ports import Buffer
from ottla.protocol.records.batch import RecordBatch
from ottla.protocol.records.columns import Columns

SOURCE_CRC: int

def decode_columns(batch: RecordBatch, data: Buffer, column_bytes_max: int = ...) -> Columns: ...
def decode_columns_in_place(
    batch: RecordBatch,
    data: Buffer,
    column_bytes_max: int = ...,
    in_place_bytes_min: int = ...,
) -> Columns: ...

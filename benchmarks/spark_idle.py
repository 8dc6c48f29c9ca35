"""A Python source that does nothing: what a micro-batch of any Python source takes of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType


def idle_source(partitions: int) -> type[DataSource]:
    """Rows without a broker, one for each task. Made here, the class is pickled by its value, so
    that workers need not find this file."""

    class IdleReader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"at": 0}

        def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
            return {"at": start["at"] + partitions}

        def partitions(self, start: object, end: object) -> Sequence[InputPartition]:
            return [InputPartition(number) for number in range(partitions)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            number = pa.py_buffer(partition.value.to_bytes(8, "little"))
            column = pa.Array.from_buffers(pa.int64(), 1, [None, number])
            yield pa.RecordBatch.from_arrays([column], names=["value"])

    class IdleSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "idle"

        def schema(self) -> str:
            return "value bigint"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return IdleReader()

    return IdleSource

"""Decodes the records of ``ottla consume`` by the schemas of a registry.

What cannot be decoded is written as raw bytes, with a warning on standard error: a topic stays
readable when one record of it is not.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.client.cli.records.schemas import (
    SchemaRegistry,
    as_json,
    registry_of,
    schema_id_of,
)
from ottla.client.cli.run import CommandError, UndecodableBytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.fetching.batches import ConsumerRecord

    Record = ConsumerRecord[bytes, bytes]

REFUSED_MAX = 1_000


class RecordDecoder:
    """Decodes keys and values, and keeps an error until the records before it are written.

    Args:
        registry: Knows the schemas; None leaves all records as they are.
    """

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry
        # Why a schema cannot be had, by its id: a registry is not asked again for each record.
        self._refused: dict[int, str] = {}
        self._failure: CommandError | None = None

    async def decoded(self, records: Sequence[Record]) -> list[Record]:
        """The records, or those before an error, which ``check`` raises."""
        if self._registry is None:
            return list(records)
        found: list[Record] = []
        for record in records:
            try:
                found.append(await self._decode(self._registry, record))
            except CommandError as error:
                self._failure = error
                break
        return found

    def check(self) -> None:
        """Raise the CommandError of a registry that fails, once its records are written."""
        if self._failure is not None:
            raise self._failure

    async def _decode(self, registry: SchemaRegistry, record: Record) -> Record:
        faults, parts = [], {"key": record.key, "value": record.value}
        for what, data in list(parts.items()):
            try:
                parts[what] = await self._part(registry, data)
            except UndecodableBytes as error:
                faults.append(f"its {what} is written as raw bytes: {error}")
        if faults:
            place = f"{record.topic}-{record.partition}@{record.offset}"
            sys.stderr.write(f"ottla: the record {place}: {'; '.join(faults)}\n")
        return record._replace(key=parts["key"], value=parts["value"])

    async def _part(self, registry: SchemaRegistry, data: bytes | None) -> bytes | None:
        schema_id = schema_id_of(data)
        if schema_id is None:
            return data
        if schema_id in self._refused:
            raise UndecodableBytes(self._refused[schema_id])
        try:
            await registry.by_id(schema_id)
        except UndecodableBytes as error:
            if len(self._refused) >= REFUSED_MAX:
                self._refused.clear()
            self._refused[schema_id] = str(error)
            raise
        return await as_json(registry, data)


def decoder_of(arguments: argparse.Namespace) -> RecordDecoder:
    """The decoder for ``--schema-registry``. Raises UsageError."""
    return RecordDecoder(registry_of(arguments))

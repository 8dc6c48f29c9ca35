"""Decodes records for the console by the schemas of a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.records.schemas import HEADER_BYTES, MAGIC, SchemaRegistry, decoded
from ottla.client.cli.run import CommandError

if TYPE_CHECKING:
    from ottla.client.console.record_runs import SeenRecord
    from ottla.protocol.ports import Clock

# A schema that the registry does not tell is not asked for again within this time.
REST_MS = 10_000.0
FAILED_MAX = 1_000


class RegistryDecoder:
    """Turns keys and values in the Confluent wire format into JSON.

    A record that its schema does not describe stays as it is, and so does one whose schema the
    registry does not tell: a page of records must not fail because of one of them.

    Args:
        url: The address of the registry. Raises UsageError.
        clock: Tells when a schema is asked for again.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._registry = SchemaRegistry(url)
        self._clock = clock
        self._failed: dict[int, float] = {}

    async def decode(self, record: SeenRecord) -> SeenRecord:
        """The record with key and value as JSON where they can be read."""
        for data in (record.key, record.value):
            if data is None or len(data) < HEADER_BYTES or data[0] != MAGIC:
                continue
            if not await self._is_known(int.from_bytes(data[1:HEADER_BYTES])):
                return record
        try:
            return (await decoded(self._registry, [record]))[0]
        except CommandError:
            return record

    async def _is_known(self, schema_id: int) -> bool:
        now_ms = self._clock.now_ms()
        if self._failed.get(schema_id, now_ms) > now_ms:
            return False
        try:
            await self._registry.by_id(schema_id)
        except CommandError:
            self._failed.pop(schema_id, None)
            self._failed[schema_id] = self._clock.now_ms() + REST_MS
            if len(self._failed) > FAILED_MAX:
                del self._failed[next(iter(self._failed))]
            return False
        return True

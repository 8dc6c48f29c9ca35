"""Decodes records for the console by the schemas of a registry."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.cli.records.schemas import (
    HEADER_BYTES,
    MAGIC,
    SchemaRegistry,
    WrittenSchema,
    as_json,
)
from ottla.client.cli.run import CommandError
from ottla.client.cli.web.decoding_process import DecodingProcess

if TYPE_CHECKING:
    from ottla.client.console.record_runs import SeenRecord
    from ottla.protocol.ports import Clock

# A schema that the registry does not tell is not asked for again within this time.
REST_MS = 10_000.0
FAILED_MAX = 1_000
# What is decoded on the event loop, between two turns of others: bytes, and characters of JSON. It
# takes a few milliseconds; the process takes about one for each value.
LOOP_BYTES_MAX = 4_096
LOOP_CHARACTERS_MAX = 256 * 1024


class RegistryDecoder:
    """Turns keys and values in the Confluent wire format into JSON.

    A record that its schema does not describe stays as it is, and so does one whose schema the
    registry does not tell: a page of records must not fail because of one of them.

    A large value, and one of a schema that can make much of few bytes, is decoded by a process of
    its own with limits of time and memory, so that no record keeps the pages of others waiting.

    Args:
        url: The address of the registry. Raises UsageError.
        clock: Tells when a schema is asked for again, and limits the process.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._registry = SchemaRegistry(url)
        self._clock = clock
        self._failed: dict[int, float] = {}
        self._process = DecodingProcess(clock)
        self._characters = 0.0

    def close(self) -> None:
        """End the process."""
        self._process.close()

    async def decode(self, record: SeenRecord) -> SeenRecord:
        """The record with key and value as JSON where they can be read."""
        for data in (record.key, record.value):
            if data is None or len(data) < HEADER_BYTES or data[0] != MAGIC:
                continue
            if not await self._is_known(int.from_bytes(data[1:HEADER_BYTES])):
                return record
        try:
            key = await as_json(self._registry, record.key, self._to_json)
            value = await as_json(self._registry, record.value, self._to_json)
        except CommandError:
            return record
        return record._replace(key=key, value=value)

    async def _to_json(self, schema: WrittenSchema, content: bytes) -> bytes:
        characters = len(content) * schema.parsed.weight
        if len(content) > LOOP_BYTES_MAX or characters > LOOP_CHARACTERS_MAX:
            return await self._process.to_json(schema, content)
        self._characters += characters
        if self._characters > LOOP_CHARACTERS_MAX:
            self._characters = 0.0
            await asyncio.sleep(0)
        return await schema.to_json(content)

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

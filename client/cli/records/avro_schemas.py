"""Avro schemas of a registry: data to JSON and back. Needs the package fastavro."""

from __future__ import annotations

import base64
import io
import json
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from ottla.client.cli.records.avro_bounds import AvroBounds
from ottla.client.cli.run import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Quotes, colon, comma, and the digits of a number of a byte.
JSON_SIGNS = 8


class AvroSchema:
    """One schema.

    Args:
        schema: Its JSON.
        references: The JSON of the schemas that it refers to, each after those that it refers to
            itself.

    Raises CommandError without fastavro, and any exception for what is no schema.
    """

    def __init__(self, schema: str, references: Iterable[str]) -> None:
        self._avro = _library()
        named: dict[str, Any] = {}
        documents = [json.loads(text) for text in (*references, schema)]
        for document in documents:
            self._parsed = self._avro.parse_schema(document, named_schemas=named)
        self._bounds = AvroBounds(self._parsed, named)
        self._names = max(map(_longest_name, documents))

    @property
    def weight(self) -> float:
        """How many characters of JSON a byte of any data becomes at most, about."""
        return self._names if self._bounds.is_tame else inf

    def to_json(self, data: bytes) -> bytes:
        """The value as JSON. Raises CommandError with a sentence for data that decodes to far more
        than its bytes, and any exception for data of another schema."""
        fault = self._bounds.fault(data)
        if fault:
            raise CommandError(fault)
        value = self._avro.schemaless_reader(io.BytesIO(data), self._parsed, None)
        document = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
        return document.encode()

    def from_json(self, document: object) -> bytes:
        """The data of a document. Raises any exception for one that does not fit."""
        stream = io.BytesIO()
        self._avro.schemaless_writer(stream, self._parsed, document, strict_allow_default=True)
        return stream.getvalue()


def _longest_name(document: Any) -> int:
    """Of a field or a symbol, with what JSON adds to it."""
    longest, pending = 0, [document]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            names = [part.get("name"), *(part.get("symbols") or ())]
            longest = max(longest, *(len(name) for name in names if isinstance(name, str)), 0)
            pending += part.values()
    return longest + JSON_SIGNS


def _plain(value: object) -> str:
    """Bytes as base64; times, decimals and UUIDs as text."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def _library() -> Any:
    try:
        return import_module("fastavro")
    except ImportError:
        raise CommandError("Avro needs a package: pip install fastavro") from None

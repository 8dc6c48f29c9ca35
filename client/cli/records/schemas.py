"""Values in the Confluent wire format: a zero byte, the id of a schema in a registry, the data.

``consume`` turns them into JSON and ``produce`` makes them from JSON. Avro needs the package
fastavro; values of JSON Schema are JSON already; Protobuf is refused. A schema is asked for once.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import urllib.error
import urllib.request
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ottla.client.cli.run import CommandError, UsageError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.fetching.batches import ConsumerRecord

    Record = ConsumerRecord[bytes, bytes]

MAGIC = 0
HEADER_BYTES = 5
TIMEOUT_S = 10
AVRO, JSON_SCHEMA = "AVRO", "JSON"


class WrittenSchema(NamedTuple):
    """A schema of the registry. ``parsed`` is what fastavro makes of an Avro schema."""

    schema_id: int
    kind: str
    parsed: Any


class SchemaRegistry:
    """Asks a registry over HTTP, outside of the event loop.

    Args:
        url: Its address; a user and password in it are sent as HTTP Basic. Raises UsageError.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--schema-registry wants http://HOST:PORT, not {url!r}")
        login, _, host = parts.netloc.rpartition("@")
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if login:
            encoded = base64.b64encode(unquote(login).encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {encoded}"
        self._by_id: dict[int, WrittenSchema] = {}

    async def by_id(self, schema_id: int) -> WrittenSchema:
        """The schema of that id. Raises CommandError."""
        found = self._by_id.get(schema_id)
        if found is None:
            document = await self._ask(f"/schemas/ids/{schema_id}")
            found = self._by_id[schema_id] = _schema(schema_id, document)
        return found

    async def newest(self, subject: str) -> WrittenSchema:
        """The newest schema of a subject. Raises CommandError."""
        document = await self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return _schema(int(document["id"]), document)

    async def _ask(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._base + path, headers=self._headers)
        try:
            document: dict[str, Any] = await asyncio.to_thread(_fetch, request)
        except urllib.error.HTTPError as error:
            error.close()
            raise CommandError(
                f"the schema registry answers {path} with {error.code} {error.reason}"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise CommandError(f"the schema registry {self._base} fails: {reason}") from None
        return document


def _fetch(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        document = json.load(answer)
    if not isinstance(document, dict) or "schema" not in document:
        raise ValueError("its answer has no schema")
    return document


def _schema(schema_id: int, document: dict[str, Any]) -> WrittenSchema:
    """Raises CommandError for a kind that cannot be read here."""
    kind = document.get("schemaType", AVRO)
    if kind == JSON_SCHEMA:
        return WrittenSchema(schema_id, kind, None)
    if kind != AVRO:
        raise CommandError(f"schema {schema_id} is of the kind {kind}; AVRO and JSON can be read")
    if document.get("references"):
        raise CommandError(f"schema {schema_id} refers to other schemas, which are not resolved")
    try:
        parsed = _avro().parse_schema(json.loads(document["schema"]))
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(f"schema {schema_id} is no Avro schema: {error}") from None
    return WrittenSchema(schema_id, kind, parsed)


def _avro() -> Any:
    try:
        return import_module("fastavro")
    except ImportError:
        raise CommandError("Avro needs a package: pip install fastavro") from None


def registry_of(arguments: argparse.Namespace) -> SchemaRegistry | None:
    """The registry of ``--schema-registry``; None without one. Raises UsageError."""
    url: str | None = arguments.schema_registry
    return None if url is None else SchemaRegistry(url)


async def decoded(registry: SchemaRegistry, records: Sequence[Record]) -> list[Record]:
    """The records with keys and values of the wire format as JSON, and others as they are.

    Raises CommandError for data that its schema does not describe."""
    found = []
    for record in records:
        key = await _as_json(registry, record, record.key)
        value = await _as_json(registry, record, record.value)
        found.append(record._replace(key=key, value=value))
    return found


async def _as_json(registry: SchemaRegistry, record: Record, data: bytes | None) -> bytes | None:
    if data is None or len(data) < HEADER_BYTES or data[0] != MAGIC:
        return data
    schema = await registry.by_id(int.from_bytes(data[1:HEADER_BYTES]))
    content = data[HEADER_BYTES:]
    if schema.kind == JSON_SCHEMA:
        return content
    try:
        value = _avro().schemaless_reader(io.BytesIO(content), schema.parsed, None)
    except Exception as error:
        place = f"{record.topic}-{record.partition}@{record.offset}"
        raise CommandError(
            f"the record {place} does not fit its schema {schema.schema_id}: {error!r}"
        ) from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> str:
    """Bytes as base64; times, decimals and UUIDs as text."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


def encoded(schema: WrittenSchema, value: bytes | None) -> bytes | None:
    """A value that is given as JSON, in the wire format; null stays null. Raises CommandError."""
    if value is None:
        return None
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        raise CommandError("its value is no JSON, which a schema needs") from None
    content = value
    if schema.kind == AVRO:
        stream = io.BytesIO()
        try:
            _avro().schemaless_writer(stream, schema.parsed, document, strict_allow_default=True)
        except CommandError:
            raise
        except Exception as error:
            raise CommandError(
                f"its value does not fit schema {schema.schema_id}: {error!r}"
            ) from None
        content = stream.getvalue()
    return bytes([MAGIC]) + schema.schema_id.to_bytes(4) + content

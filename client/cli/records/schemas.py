"""Values in the Confluent wire format: a zero byte, the id of a schema in a registry, the data.

``consume`` turns them into JSON and ``produce`` makes them from JSON. Avro needs the package
fastavro, Protobuf the package protobuf; values of JSON Schema are JSON already. A schema is asked
for once, with those that it refers to.
"""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ottla.client.cli.records.avro_schemas import AvroSchema
from ottla.client.cli.records.protobuf_schemas import FIRST, ProtobufSchema
from ottla.client.cli.run import CommandError, UndecodableBytes, UsageError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ottla.client.fetching.batches import ConsumerRecord

    Record = ConsumerRecord[bytes, bytes]

MAGIC = 0
HEADER_BYTES = 5
TIMEOUT_S = 10
AVRO, JSON_SCHEMA, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
# A registry answers with a FileDescriptorProto instead of its text.
SERIALIZED = "?format=serialized"
REFERENCES_MAX = 200


class WrittenSchema(NamedTuple):
    """A schema of the registry.

    ``parsed`` is an ``AvroSchema`` or a ``ProtobufSchema``; ``message`` is the place of the message
    that is written with it; ``source`` and ``references`` are what it was parsed from."""

    schema_id: int
    kind: str
    parsed: Any
    message: tuple[int, ...] = FIRST
    source: str = ""
    references: tuple[tuple[str, str], ...] = ()

    async def to_json(self, content: bytes) -> bytes:
        """Data of the schema as JSON. Raises any exception for other data."""
        return bytes(self.parsed.to_json(content))


ToJson = Callable[[WrittenSchema, bytes], Awaitable[bytes]]
"""Turns data of a schema into JSON."""


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
        """The schema of that id. Raises UndecodableBytes if the registry has none that can be
        read, and CommandError if it fails."""
        found = self._by_id.get(schema_id)
        if found is None:
            found = self._by_id[schema_id] = await self._schema(
                f"/schemas/ids/{schema_id}", schema_id
            )
        return found

    async def newest(self, subject: str) -> WrittenSchema:
        """The newest schema of a subject. Raises CommandError."""
        return await self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest")

    async def _schema(self, path: str, schema_id: int | None = None) -> WrittenSchema:
        document = await self._ask(path)
        kind = document.get("schemaType", AVRO)
        if schema_id is None:
            schema_id = int(document["id"])
        if kind == JSON_SCHEMA:
            return WrittenSchema(schema_id, kind, None)
        if kind == PROTOBUF:
            document = await self._ask(path + SERIALIZED)
        elif kind != AVRO:
            raise UndecodableBytes(
                f"schema {schema_id} is of the kind {kind}; AVRO, JSON and PROTOBUF can be read"
            )
        references: dict[str, str] = {}
        await self._refer(document, SERIALIZED if kind == PROTOBUF else "", references)
        return parsed_schema(schema_id, kind, document["schema"], references)

    async def _refer(self, document: dict[str, Any], form: str, references: dict[str, str]) -> None:
        """Add the schemas that a schema refers to, each after those that it refers to itself."""
        for one in document.get("references") or ():
            name = str(one["name"])
            if name in references:
                continue
            if len(references) >= REFERENCES_MAX:
                raise UndecodableBytes(f"a schema refers to more than {REFERENCES_MAX} others")
            subject, version = quote(str(one["subject"]), safe=""), int(one["version"])
            references[name] = ""
            found = await self._ask(f"/subjects/{subject}/versions/{version}{form}")
            await self._refer(found, form, references)
            del references[name]
            references[name] = found["schema"]

    async def _ask(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self._base + path, headers=self._headers)
        try:
            document: dict[str, Any] = await asyncio.to_thread(_fetch, request)
        except urllib.error.HTTPError as error:
            error.close()
            kind = UndecodableBytes if error.code == HTTPStatus.NOT_FOUND else CommandError
            raise kind(
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


def parsed_schema(
    schema_id: int, kind: str, source: str, references: Mapping[str, str]
) -> WrittenSchema:
    """A schema of Avro or Protobuf from what the registry tells. Raises CommandError."""
    make = _protobuf_schema if kind == PROTOBUF else _avro_schema
    parsed = make(schema_id, source, references)
    return WrittenSchema(
        schema_id, kind, parsed, source=source, references=tuple(references.items())
    )


def _avro_schema(schema_id: int, schema: str, references: Mapping[str, str]) -> AvroSchema:
    """Raises CommandError."""
    try:
        return AvroSchema(schema, references.values())
    except CommandError:
        raise
    except Exception as error:
        raise UndecodableBytes(f"schema {schema_id} is no Avro schema: {error}") from None


def _protobuf_schema(schema_id: int, schema: str, references: Mapping[str, str]) -> ProtobufSchema:
    """Raises CommandError."""
    try:
        files = {name: base64.b64decode(one, validate=True) for name, one in references.items()}
        main = base64.b64decode(schema, validate=True)
    except ValueError:
        raise UndecodableBytes(
            f"the schema registry gives schema {schema_id} as text only; Protobuf needs one that "
            f"knows {SERIALIZED[1:]}"
        ) from None
    return ProtobufSchema(main, files)


def registry_of(arguments: argparse.Namespace) -> SchemaRegistry | None:
    """The registry of ``--schema-registry``; None without one. Raises UsageError."""
    url: str | None = arguments.schema_registry
    return None if url is None else SchemaRegistry(url)


class SchemaChoice(NamedTuple):
    """The schemas of values and of keys to write; None leaves keys as they are."""

    value: WrittenSchema
    key: WrittenSchema | None


async def schemas_of(arguments: argparse.Namespace) -> SchemaChoice | None:
    """The schemas that ``produce`` writes with; None without a registry. Raises UsageError and
    CommandError."""
    registry = registry_of(arguments)
    options = {
        "--subject": arguments.subject,
        "--schema": arguments.schema,
        "--message": arguments.message,
        "--key-subject": arguments.key_subject,
        "--key-schema": arguments.key_schema,
    }
    given = [name for name, value in options.items() if value is not None]
    if registry is None:
        if given:
            raise UsageError(f"{given[0]} is for --schema-registry")
        return None
    if arguments.schema is not None:
        value = await registry.by_id(arguments.schema)
    else:
        value = await registry.newest(arguments.subject or f"{arguments.topic}-value")
    if value.kind == PROTOBUF:
        value = value._replace(message=value.parsed.place_of(arguments.message))
    elif arguments.message is not None:
        raise UsageError(f"--message is for Protobuf, and schema {value.schema_id} is {value.kind}")
    key = None
    if arguments.key_schema is not None:
        key = await registry.by_id(arguments.key_schema)
    elif arguments.key_subject is not None:
        key = await registry.newest(arguments.key_subject)
    return SchemaChoice(value, key)


def schema_id_of(data: bytes | None) -> int | None:
    """The id of a schema in data of the wire format; None for other data."""
    if data is None or len(data) < HEADER_BYTES or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:HEADER_BYTES])


async def as_json(
    registry: SchemaRegistry, data: bytes | None, to_json: ToJson = WrittenSchema.to_json
) -> bytes | None:
    """Data of the wire format as JSON, and other data as it is. Raises UndecodableBytes, and
    CommandError for a registry that fails."""
    schema_id = schema_id_of(data)
    if data is None or schema_id is None:
        return data
    schema = await registry.by_id(schema_id)
    content = data[HEADER_BYTES:]
    if schema.kind == JSON_SCHEMA:
        return content
    try:
        return await to_json(schema, content)
    except CommandError as error:
        reason = str(error)
    except EOFError:
        reason = "it ends too early"
    except Exception:
        # Texts of the libraries are about their code.
        reason = "its bytes mean something else"
    raise UndecodableBytes(f"it does not fit its schema {schema_id}: {reason}")


def encoded(schema: WrittenSchema, value: bytes | None, what: str = "value") -> bytes | None:
    """JSON in the wire format, as a key or a value; null stays null. Raises CommandError."""
    if value is None:
        return None
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        raise CommandError(f"its {what} is no JSON, which a schema needs") from None
    content = value
    try:
        if schema.kind == PROTOBUF:
            content = schema.parsed.from_json(value, schema.message)
        elif schema.kind == AVRO:
            content = schema.parsed.from_json(document)
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(
            f"its {what} does not fit schema {schema.schema_id}: {error!r}"
        ) from None
    return bytes([MAGIC]) + schema.schema_id.to_bytes(4) + content

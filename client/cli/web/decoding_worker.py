"""The process that decodes large values for the console; ``decoding_process`` starts it.

It reads requests from standard input, each a head in JSON and the data behind their lengths, and
answers with a status and a text. It ends when its input does, so it cannot outlive the console.
"""

from __future__ import annotations

import json
import resource
import struct
import sys
from typing import TYPE_CHECKING, Any

from ottla.client.cli.records.schemas import WrittenSchema, parsed_schema

if TYPE_CHECKING:
    from typing import BinaryIO

REQUEST = struct.Struct(">QQ")
ANSWER = struct.Struct(">?Q")
MEMORY_BYTES_MAX = 2 << 30
JSON_BYTES_MAX = 64 << 20
# Parsed schemas that are kept; the console has the others.
SCHEMAS_MAX = 20


def main() -> None:
    """Serve standard input until it ends."""
    _limit_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer each request in turn."""
    known: dict[bytes, WrittenSchema] = {}
    while lengths := source.read(REQUEST.size):
        head_bytes, data_bytes = REQUEST.unpack(lengths)
        head, data = source.read(head_bytes), source.read(data_bytes)
        is_json, text = _answer(known, head, data)
        sink.write(ANSWER.pack(is_json, len(text)))
        sink.write(text)
        sink.flush()


def _answer(known: dict[bytes, WrittenSchema], head: bytes, data: bytes) -> tuple[bool, bytes]:
    try:
        schema = known.get(head)
        if schema is None:
            if len(known) >= SCHEMAS_MAX:
                known.clear()
            schema = known[head] = _schema(json.loads(head))
        found = bytes(schema.parsed.to_json(data))
    except MemoryError:
        return False, b"its value takes more memory than the console gives it"
    except Exception as error:
        return False, str(error).encode()
    if len(found) > JSON_BYTES_MAX:
        return False, f"it would become {len(found)} bytes of JSON".encode()
    return True, found


def head_of(schema: WrittenSchema) -> bytes:
    """What tells the process of a schema."""
    names = {"id": schema.schema_id, "kind": schema.kind, "source": schema.source}
    return json.dumps({**names, "references": schema.references}).encode()


def _schema(head: dict[str, Any]) -> WrittenSchema:
    references = dict(head["references"])
    return parsed_schema(head["id"], head["kind"], head["source"], references)


def _limit_memory() -> None:
    """Where the system can: a value that needs more raises MemoryError."""
    try:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, most))
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    main()

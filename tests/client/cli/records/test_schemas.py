"""Values in the Confluent wire format, with a registry that is a small HTTP server here."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import is_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
AVRO = json.dumps(ORDER)
# By path; what the registry of Confluent answers.
ANSWERS: dict[str, dict[str, object]] = {
    "/schemas/ids/7": {"schema": AVRO},
    "/schemas/ids/8": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/9": {"schema": "message A {}", "schemaType": "PROTOBUF"},
    "/subjects/avro-value/versions/latest": {"id": 7, "schema": AVRO},
    "/subjects/own/versions/latest": {"id": 8, "schema": "{}", "schemaType": "JSON"},
}


class Registry(ThreadingHTTPServer):
    """Keeps what it was asked for, and by whom."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Registry)
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        document = ANSWERS.get(self.path)
        self.send_response(200 if document else 404)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """The commands' own output stays readable."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_values_go_out_in_avro_and_come_back_as_json(
    broker: str, ottla: Ottla, registry: Registry
) -> None:
    """A filter sees the fields; a schema is asked for once; a plain value stays as it is."""
    ottla("topics", "create", "avro", "-p", "1", "-b", broker)
    options = ("--schema-registry", registry.url, "-b", broker)
    lines = b'{"id":1,"note":"a"}\n{"id":2}\n{"id":3,"note":null}\n'

    sent = ottla("produce", "avro", *options, stdin=lines)
    ottla("produce", "avro", "-b", broker, stdin=b"plain\n")
    raw = ottla("consume", "avro", "-o0", "-n1", "-f", "%v{hex}", "-b", broker)
    back = ottla("consume", "avro", "-o0", "-e", *options)
    some = ottla("consume", "avro", "-o0", "-e", "--filter", "value.id > 1", *options)
    member = ottla("consume", "avro", "-g", "readers", "-o", "beginning", "-n", "4", *options)

    assert (sent.status, sent.errors) == (0, "")
    assert raw.output == b"0000000007" + b"02020261"
    expected = b'{"id":1,"note":"a"}\n{"id":2,"note":null}\n{"id":3,"note":null}\nplain\n'
    assert back.output == expected
    assert some.output == b'{"id":2,"note":null}\n{"id":3,"note":null}\n'
    assert member.output == expected
    # Once for each of the three commands that read.
    assert [path for path, _ in registry.asked].count("/schemas/ids/7") == 3


def test_json_schema_and_a_login(broker: str, ottla: Ottla, registry: Registry) -> None:
    """The password does not stay in the address that is asked."""
    ottla("topics", "create", "framed", "-p", "1", "-b", broker)
    url = registry.url.replace("//", "//user:p%40ss@")
    options = ("--schema-registry", url, "-b", broker)

    ottla("produce", "framed", "--subject", "own", *options, stdin=b'{"a":1}\n')
    back = ottla("consume", "framed", "-o0", "-e", *options)

    assert back.output == b'{"a":1}\n'
    assert {login for _, login in registry.asked} == {"Basic dXNlcjpwQHNz"}


def test_mistakes_are_said_in_one_sentence(broker: str, ottla: Ottla, registry: Registry) -> None:
    """Which record, which schema, and what the registry answered."""
    ottla("topics", "create", "odd", "-p", "1", "-b", broker)
    options = ("--schema-registry", registry.url, "-b", broker)
    framed = b"".join(
        bytes([0]) + schema.to_bytes(4) + data + b"|" for schema, data in ((9, b"x"), (7, b"\xff"))
    )
    ottla("produce", "odd", "-D", "|", "-b", broker, stdin=framed)

    for words, stdin, status, part in (
        (("consume", "odd", "-o0", "-n1", *options), b"", 1, "of the kind PROTOBUF"),
        (("consume", "odd", "-o1", "-n1", *options), b"", 1, "odd-0@1 does not fit its schema 7"),
        (("produce", "odd", *options), b"{}\n", 1, "with 404 Not Found"),
        (("produce", "odd", "--subject", "avro-value", *options), b"no\n", 1, "line 1: its value"),
        (("produce", "odd", "--subject", "avro-value", *options), b"{}\n", 1, "does not fit"),
        (("produce", "odd", "--subject", "s", "-b", broker), b"", 2, "--schema-registry"),
        (("consume", "odd", "--schema-registry", "here", "-b", broker), b"", 2, "http://"),
    ):
        ended = ottla(*words, stdin=stdin)
        assert (ended.status, ended.output) == (status, b""), words
        assert part in ended.errors
        assert is_one_sentence(ended.errors)

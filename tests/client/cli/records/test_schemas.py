"""Values in the Confluent wire format, with a registry that is a small HTTP server here."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.records.protobuf_schemas import read_indexes, write_indexes
from tests.client.cli.command import is_one_sentence
from tests.client.cli.records.protobuf_files import NOTE_FILE, ORDER_FILE

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
CUSTOMER = json.dumps(
    {"type": "record", "name": "Customer", "fields": [{"name": "order", "type": "Order"}]}
)
TO_NOTE = [{"name": "note.proto", "subject": "shop/note", "version": 2}]
TO_ORDER = [{"name": "Order", "subject": "avro-value", "version": 1}]
# By path; what the registry of Confluent answers.
ANSWERS: dict[str, dict[str, object]] = {
    "/schemas/ids/7": {"schema": AVRO},
    "/schemas/ids/8": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/9": {"schema": "message A {}", "schemaType": "PROTOBUF"},
    "/schemas/ids/9?format=serialized": {"schema": "message A {}", "schemaType": "PROTOBUF"},
    "/schemas/ids/10": {"schema": "...", "schemaType": "PROTOBUF", "references": TO_NOTE},
    "/schemas/ids/10?format=serialized": {
        "schema": ORDER_FILE,
        "schemaType": "PROTOBUF",
        "references": TO_NOTE,
    },
    "/subjects/shop%2Fnote/versions/2?format=serialized": {"id": 4, "schema": NOTE_FILE},
    "/schemas/ids/11": {"schema": CUSTOMER, "references": TO_ORDER},
    "/subjects/avro-value/versions/1": {"id": 7, "schema": AVRO},
    "/schemas/ids/12": {"schema": "<x/>", "schemaType": "XML"},
    "/subjects/protobuf-value/versions/latest": {
        "id": 10,
        "schema": "...",
        "schemaType": "PROTOBUF",
        "references": TO_NOTE,
    },
    "/subjects/protobuf-value/versions/latest?format=serialized": {
        "id": 10,
        "schema": ORDER_FILE,
        "schemaType": "PROTOBUF",
        "references": TO_NOTE,
    },
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


def test_protobuf_messages_go_out_and_come_back_as_json(
    broker: str, ottla: Ottla, registry: Registry
) -> None:
    """Of each message of a file, also one within another, with types of a file that it imports."""
    ottla("topics", "create", "protobuf", "-p", "1", "-b", broker)
    options = ("--schema-registry", registry.url, "-b", broker)
    order = b'{"order_id":"7","note":{"text":"a"},"at":"2026-01-02T03:04:05Z"}'
    sent = [
        ottla("produce", "protobuf", *options, stdin=b"{}\n"),
        ottla("produce", "protobuf", "--message", "Order", *options, stdin=order + b"\n"),
        ottla(
            *("produce", "protobuf", "--schema", "10", "--message", "shop.Order.Line", *options),
            stdin=b'{"n":3}\n',
        ),
    ]

    raw = ottla("consume", "protobuf", "-o0", "-e", "-f", "%v{hex}\\n", "-b", broker)
    back = ottla("consume", "protobuf", "-o0", "-e", *options)
    some = ottla("consume", "protobuf", "-o0", "-e", "--filter", "value.n == 3", *options)

    assert [(one.status, one.errors) for one in sent] == [(0, "")] * 3
    first, second, third = raw.output.split()
    # The first message is a single zero; others have the count of indexes, and these, as zigzags.
    assert first == b"000000000a" + b"00"
    assert second.startswith(b"000000000a" + b"0202" + b"0807" + b"12030a0161")
    assert third == b"000000000a" + b"040200" + b"0803"
    assert back.output == b"{}\n" + order + b'\n{"n":3}\n'
    assert some.output == b'{"n":3}\n'


def test_keys_and_chosen_schemas(broker: str, ottla: Ottla, registry: Registry) -> None:
    """A schema that refers to another one is read with it."""
    ottla("topics", "create", "keyed", "-p", "1", "-b", broker)
    options = ("--schema-registry", registry.url, "-b", broker)

    ended = ottla(
        *("produce", "keyed", "-K", "|", "--schema", "11", "--key-subject", "avro-value", *options),
        stdin=b'{"id":1}|{"order":{"id":2}}\n',
    )
    by_id = ottla(
        *("produce", "keyed", "-K", "|", "--schema", "8", "--key-schema", "7", *options),
        stdin=b'{"id":3}|{"x":1}\n',
    )
    raw = ottla("consume", "keyed", "-o0", "-e", "-f", "%k{hex} %v{hex}\\n", "-b", broker)
    back = ottla("consume", "keyed", "-o0", "-e", "-K", "|", *options)

    assert (ended.errors, by_id.errors) == ("", "")
    assert raw.output.splitlines()[0] == b"0000000007" + b"0200" + b" 000000000b" + b"0400"
    assert back.output == (
        b'{"id":1,"note":null}|{"order":{"id":2,"note":null}}\n{"id":3,"note":null}|{"x":1}\n'
    )


@pytest.mark.parametrize(
    ("path", "data"), [((0,), "00"), ((1,), "0202"), ((0, 0), "040000"), ((2, 100), "0404c801")]
)
def test_the_place_of_a_message_is_written_as_others_read_it(
    path: tuple[int, ...], data: str
) -> None:
    """Every producer of the format writes it so."""
    assert write_indexes(path).hex() == data
    assert read_indexes(bytes.fromhex(data) + b"rest") == (path, len(data) // 2)


@pytest.mark.parametrize("data", ["", "02", "01", "0201", "ffffffffff7f", "8001" + "00" * 64])
def test_a_place_that_cannot_be_read_is_refused(data: str) -> None:
    """Cut off, negative, too many or too large."""
    with pytest.raises(ValueError, match="index"):
        read_indexes(bytes.fromhex(data))


def test_what_cannot_be_decoded_is_written_as_raw_bytes(
    broker: str, ottla: Ottla, registry: Registry
) -> None:
    """The records around it are printed. A warning tells which it is and why, in no Python. A
    schema that the registry does not have is asked for once."""
    ottla("topics", "create", "mixed", "-p", "1", "-b", broker)
    options = ("--schema-registry", registry.url, "-b", broker)
    values = [
        bytes([0]) + schema.to_bytes(4) + data
        for schema, data in (
            *((7, b"\x02\x00"), (9, b"x"), (7, b"\x02\x02"), (12, b"x"), (10, b"\x02\x08")),
            *((99, b"x"), (99, b"y"), (7, b"\x04\x00")),
        )
    ]
    ottla("produce", "mixed", "-D", "|", "-b", broker, stdin=b"".join(one + b"|" for one in values))
    first, *others, last = values
    expected = [b'{"id":1,"note":null}', *others, b'{"id":2,"note":null}']

    alone = ottla("consume", "mixed", "-o0", "-e", "-D", "|", *options)
    asked = [path for path, _ in registry.asked]
    member = ottla("consume", "mixed", "-g", "g", "-o", "beginning", "-n8", "-D", "|", *options)

    assert first != last
    for ended in (alone, member):
        assert (ended.status, ended.output.split(b"|")[:-1]) == (0, expected)
        lines = ended.errors.splitlines()
        assert [line.split(": ")[1] for line in lines] == [
            f"the record mixed-0@{number}" for number in range(1, 7)
        ]
        for line, part in zip(
            lines,
            (
                "gives schema 9 as text",
                "does not fit its schema 7: it ends too early",
                "of the kind XML",
                "does not fit its schema 10",
                "/schemas/ids/99 with 404 Not Found",
                "/schemas/ids/99 with 404 Not Found",
            ),
            strict=True,
        ):
            assert "its value is written as raw bytes: " in line
            assert part in line
            assert "Error" not in line
    assert asked.count("/schemas/ids/99") == 1


def test_records_before_a_failure_of_the_registry_are_printed(
    broker: str, ottla: Ottla, registry: Registry
) -> None:
    """A registry that cannot be reached is an error: no record after it is taken for raw bytes."""
    ottla("topics", "create", "away", "-p", "1", "-b", broker)
    ottla("produce", "away", "-D", "|", "-b", broker, stdin=b"plain|" + bytes(4) + b"\x07\x02\x00|")
    registry.shutdown()
    registry.server_close()
    options = ("--schema-registry", registry.url, "-b", broker)

    alone = ottla("consume", "away", "-o0", "-e", *options)
    member = ottla("consume", "away", "-g", "h", "-o", "beginning", "-n2", *options)

    for ended in (alone, member):
        assert (ended.status, ended.output) == (1, b"plain\n")
        assert f"the schema registry {registry.url} fails: " in ended.errors
        assert is_one_sentence(ended.errors)


def test_mistakes_are_said_in_one_sentence(broker: str, ottla: Ottla, registry: Registry) -> None:
    """Which option, which line, and what the registry answered."""
    ottla("topics", "create", "odd", "-p", "1", "-b", broker)
    options = ("--schema-registry", registry.url, "-b", broker)

    for words, stdin, status, part in (
        (("produce", "odd", *options), b"{}\n", 1, "with 404 Not Found"),
        (("produce", "odd", "--subject", "avro-value", *options), b"no\n", 1, "line 1: its value"),
        (("produce", "odd", "--subject", "avro-value", *options), b"{}\n", 1, "does not fit"),
        (("produce", "odd", "--subject", "s", "-b", broker), b"", 2, "--schema-registry"),
        (("produce", "odd", "--key-schema", "7", "-b", broker), b"", 2, "--key-schema is for"),
        (
            ("produce", "odd", "--schema", "7", "--message", "A", *options),
            b"",
            2,
            "--message is for Protobuf",
        ),
        (
            ("produce", "odd", "--schema", "10", "--message", "A", *options),
            b"",
            1,
            "no message 'A', only shop.Other, shop.Order, shop.Order.Line",
        ),
        (("consume", "odd", "--schema-registry", "here", "-b", broker), b"", 2, "http://"),
    ):
        ended = ottla(*words, stdin=stdin)
        assert (ended.status, ended.output) == (status, b""), words
        assert part in ended.errors
        assert is_one_sentence(ended.errors)

"""Serializers: keys and values that are not bytes, and what cannot be read.

    python examples/records/records_of_types.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints. With Avro
and Protocol Buffers: avro_records.py, protobuf_records.py.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import ottla
import ottla.sync
from ottla.serializers import INT, JSON, TEXT

# %% A cluster in this process, or the one whose address is given, and two topics.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
with ottla.sync.Admin(servers) as admin:
    admin.create_topics([ottla.NewTopic(name, 1, 1) for name in ("scores", "books")])

# %% TEXT, JSON, INT and BYTES are there. Types follow: this producer takes text and numbers.
with ottla.sync.Producer(
    servers, key_serializer=TEXT.encode, value_serializer=INT.encode
) as scores:
    scores.send("scores", 1_200, "anna")
    scores.send("scores", None, "ben")  # Null is never passed to a serializer.
with ottla.sync.Consumer(
    servers,
    offset_reset="earliest",
    key_deserializer=TEXT.decode,
    value_deserializer=INT.decode,
) as reader:
    reader.assign([ottla.TopicPartition("scores", 0)])
    found = {record.key: record.value for record in reader.poll(10_000)}
print(found)
# -> {'anna': 1200, 'ben': None}


# %% Any function will do.
class Book(NamedTuple):
    """What the application works with."""

    title: str
    pages: int


def encode_book(book: Book) -> bytes:
    """As JSON."""
    return JSON.encode(book._asdict())


def decode_book(data: bytes) -> Book:
    """Raises for what is no book."""
    return Book(**json.loads(data))


with ottla.sync.Producer(servers, value_serializer=encode_book) as books:
    books.send("books", Book("Ottla", 96)).result()
with ottla.sync.Producer(servers) as careless:
    careless.send("books", b"not a book at all").result()
with ottla.sync.Producer(servers, value_serializer=encode_book) as books:
    books.send("books", Book("Letters", 560)).result()

# %% A record that cannot be read stops the consumer in front of it; it is yours to go on behind it.
where = ottla.TopicPartition("books", 0)
titles: list[str] = []
with ottla.sync.Consumer(servers, offset_reset="earliest", value_deserializer=decode_book) as shelf:
    shelf.assign([where])
    while len(titles) < 2:
        try:
            titles += [record.value.title for record in shelf.poll() if record.value]
        except ottla.DeserializationFailed as error:
            print("left out:", error.what, "at offset", error.offset)
            # -> left out: value at offset 1
            shelf.seek(where, error.offset + 1)
print(titles)
# -> ['Ottla', 'Letters']
assert titles == ["Ottla", "Letters"]
cluster.stop()

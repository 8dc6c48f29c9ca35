"""What every foreign client must be able to do: the same tests for every language.

Each client runs unmodified in a separate process and is given one step at a time.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.interop.support.clients import INSTALLED, OTHERS, ForeignClient
from tests.interop.support.foreign import Program, packed, unpacked
from tests.interop.support.samples import (
    BASE_TIMESTAMP,
    Sample,
    digest,
    samples,
    samples_with_content,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.conftest import Bootstrap

CLIENTS = [pytest.param(client, id=client.name) for client in INSTALLED] + [
    pytest.param(client, id=client.name, marks=pytest.mark.interop) for client in OTHERS
]


@pytest.fixture(scope="module", params=CLIENTS)
def program(
    request: pytest.FixtureRequest, broker: Bootstrap, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    """The client, started once for all tests; it is skipped where its toolchain is absent."""
    client: ForeignClient = request.param
    log = tmp_path_factory.mktemp("program") / "stderr"
    with ExitStack() as stack:

        def start(one: ForeignClient) -> Program:
            command = [*one.command(), broker.address]
            started = stack.enter_context(Program(command, log, one.capabilities))
            said = started.step("hello")
            name = f"{said['client']}_{said['version']}"
            started.announce = lambda: broker.used_by(name)
            return started

        running = start(client)
        if not running.can("consume"):
            running.reader = start(INSTALLED[0])
        yield running


def create(program: Program, topic: str, partitions: int = 1, **config: str) -> None:
    """Create a topic; keys are written with underscores."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    program.step("create", topic=topic, partitions=partitions, config=settings)


def produce(
    program: Program,
    topic: str,
    records: list[Sample],
    *,
    codec: str = "none",
    acks: str = "all",
    idempotent: bool = False,
) -> None:
    """Send the records to partition 0 and wait for what the acknowledgement level promises."""
    if codec in program.capabilities.without_codecs:
        pytest.skip(f"this client has no {codec}")
    program.step(
        "produce",
        topic=topic,
        codec=codec,
        acks=acks,
        idempotent=idempotent,
        records=packed(records),
    )


def consume(program: Program, topic: str, count: int, offset: int = 0) -> list[Sample]:
    """Read that many records of partition 0, which must have consecutive offsets."""
    records = program.reader.step("consume", topic=topic, offset=offset, count=count)["records"]
    assert [record["offset"] for record in records] == list(range(offset, offset + count))
    return unpacked(records)


def sendable(program: Program) -> list[Sample]:
    """All samples that this client is able to send."""
    found = samples_with_content() if program.capabilities.without_empty_records else samples()
    if program.capabilities.without_null_headers:
        found = [one for one in found if all(value is not None for _, value in one.headers)]
    return found


def config_of(program: Program, topic: str) -> dict[str, str]:
    """The topic's settings, as the client sees them."""
    config: dict[str, str] = program.step("describe_configs", topic=topic)["config"]
    return config


@pytest.mark.requirement("NET-15", "ARC-01", "ARC-15", "FMT-24", "FMT-37")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_byte_for_byte(program: Program, topic: str, codec: str) -> None:
    """The broker stores what it was given and must not need to understand it."""
    create(program, topic)
    sent = sendable(program)

    produce(program, topic, sent, codec=codec)

    assert digest(sent) == digest(consume(program, topic, len(sent)))


@pytest.mark.requirement("ARC-14")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acknowledgement_level_delivers(program: Program, topic: str, acks: str) -> None:
    """With acks=0 a client is sent no answer at all; one too many would confuse its pipeline."""
    create(program, topic)
    sent = sendable(program)

    produce(program, topic, sent, acks=acks)

    assert digest(sent) == digest(consume(program, topic, len(sent)))


@pytest.mark.requirement("IDM-01", "IDM-02")
def test_an_idempotent_producer_writes_in_order(program: Program, topic: str) -> None:
    """The broker judges every sequence: a mistake here is a fatal error in the client."""
    if not program.can("idempotent"):
        pytest.skip("this client has no idempotent producer")
    create(program, topic)
    sent = [Sample(None, str(n).encode(), (), BASE_TIMESTAMP + n) for n in range(2_000)]

    produce(program, topic, sent, idempotent=True)

    assert digest(sent) == digest(consume(program, topic, len(sent)))


@pytest.mark.requirement("ARC-07", "ARC-18", "LOG-12")
def test_a_consumer_begins_anywhere(program: Program, topic: str) -> None:
    """A fetch in the middle of a batch returns the whole batch; the client skips what it has."""
    create(program, topic)
    sent = [Sample(None, str(n).encode(), (), BASE_TIMESTAMP + n) for n in range(500)]
    produce(program, topic, sent)

    for offset in (1, 250, 499):
        assert consume(program, topic, 1, offset) == sent[offset : offset + 1]


@pytest.mark.requirement("LOG-15", "LOG-16")
def test_offsets_are_found_by_name_and_by_time(program: Program, topic: str) -> None:
    """The beginning, the end, the first record at or after a time, and nothing after the last."""
    create(program, topic)
    produce(program, topic, [Sample(None, b"x", (), BASE_TIMESTAMP + n * 1000) for n in range(100)])

    at = [BASE_TIMESTAMP, BASE_TIMESTAMP + 49_500, BASE_TIMESTAMP + 50_000, BASE_TIMESTAMP + 10**9]
    found = program.step("offsets", topic=topic, at=at)

    assert (found["first"], found["last"]) == (0, 100)
    assert found["offsets"] == [0, 50, 50, -1]


def test_topics_are_created_listed_enlarged_and_deleted(program: Program, topic: str) -> None:
    """The first steps of every administration tool."""
    create(program, topic, partitions=3)
    assert topic in program.step("topics")["topics"]
    assert program.step("describe", topic=topic)["partitions"] == 3

    program.step("grow", topic=topic, partitions=5)
    assert program.step("describe", topic=topic)["partitions"] == 5

    program.step("delete", topic=topic)
    assert topic not in program.step("topics")["topics"]


def test_settings_of_a_topic_are_described_and_changed(program: Program, topic: str) -> None:
    """An incremental change leaves the other settings alone, the old one resets them."""
    create(program, topic, retention_ms="86400000", max_message_bytes="500000")
    config = config_of(program, topic)
    assert (config["retention.ms"], config["max.message.bytes"]) == ("86400000", "500000")
    assert config["segment.bytes"] == "1048576", "this default comes from the broker's own setting"

    if program.can("incremental_alter_configs"):
        program.step("incremental_alter_configs", topic=topic, config={"retention.ms": "1000"})
        config = config_of(program, topic)
        assert (config["retention.ms"], config["max.message.bytes"]) == ("1000", "500000")

    if program.can("alter_configs"):
        program.step("alter_configs", topic=topic, config={"retention.ms": "2000"})
        config = config_of(program, topic)
        assert config["retention.ms"] == "2000"
        is_kept = program.capabilities.alters_incrementally
        assert (config["max.message.bytes"] == "500000") == is_kept, "the others are reset"


def test_settings_of_the_broker_are_described(program: Program) -> None:
    """Tools read the broker's settings to know what a topic's defaults are."""
    config = program.step("describe_configs", broker=1)["config"]

    assert config["log.segment.bytes"] == "1048576"
    assert config["num.partitions"] == "2"


def test_records_are_deleted_up_to_an_offset(program: Program, topic: str) -> None:
    """Kafka Streams purges its repartition topics so."""
    create(program, topic)
    sent = [Sample(None, str(n).encode(), (), BASE_TIMESTAMP + n) for n in range(100)]
    produce(program, topic, sent)

    assert program.step("delete_records", topic=topic, before=40)["low_watermark"] in (40, None)

    assert program.step("offsets", topic=topic, at=[])["first"] == 40
    assert consume(program, topic, 1, 40) == sent[40:41]


def test_producing_creates_the_topic(program: Program, topic: str) -> None:
    """auto.create.topics.enable is on by default, with num.partitions partitions."""
    sent = [Sample(b"k", b"v", (), BASE_TIMESTAMP)]

    produce(program, topic, sent)

    assert consume(program, topic, 1) == sent
    assert program.step("describe", topic=topic)["partitions"] == 2

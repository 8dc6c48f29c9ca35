"""Topics that keep messages of format 1: nothing but offsets and times changes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import OldMessage, iterate_entries, read_any
from tests.broker.handlers.cluster.test_configs import alter, change
from tests.broker.support.requests import NOW, TOPIC, batch, create, fetched, produced
from tests.broker.test_compaction import partition_of
from tests.protocol.records.old_bytes import (
    LOG_APPEND_TIME,
    Made,
    entry,
    message_set,
    wrap,
    wrapper,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient

KEEP = "ottla.keep.message.format"
MADE = [Made(n, NOW + n, b"k%d" % n, b"v%d" % n) for n in range(5)]
old_codecs = pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])


async def keeping(client: RawClient, **configs: str) -> None:
    """Make the topic of these tests."""
    made = await create(client, TOPIC, 1, ottla_keep_message_format="true", **configs)
    assert made.error_code == ErrorCode.NONE


def sent(codec: Codec, made: list[Made] = MADE) -> bytes:
    return wrapper(1, made, codec) if codec else message_set(1, made)


async def entries(client: RawClient, offset: int = 0, version: int = 12) -> list[Any]:
    return list(iterate_entries(bytes((await fetched(client, offset, version)).records)))


@pytest.mark.requirement("FMT-16")
@old_codecs
async def test_a_wrapper_gets_an_outer_offset_and_is_not_compressed_again(
    client: RawClient, codec: Codec
) -> None:
    """The stored value is the producer's, byte for byte; its messages count from 0."""
    await keeping(client)
    await produced(client, batch(b"first"))
    content = sent(codec)

    answer = await produced(client, content, 2)

    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
    stored = (await entries(client))[1:]
    assert [type(one) for one in stored] == [OldMessage] * len(stored)
    if codec:
        (one,) = stored
        (origin,) = iterate_entries(content)
        assert isinstance(origin, OldMessage)
        assert one.offset == 5
        assert bytes(one.view)[8:] == content[8:]
        assert bytes(one.value) == bytes(origin.value or b"")
    else:
        assert [one.offset for one in stored] == [1, 2, 3, 4, 5]
    data = bytes((await fetched(client, 1)).records)
    assert [(one.offset, one.key, one.value) for one in read_any(data)] == [
        (1 + n, one.key, one.value) for n, one in enumerate(MADE)
    ]


@pytest.mark.parametrize("version", [2, 3, 4, 10, 12])
async def test_consumers_of_format_1_and_later_get_the_stored_bytes(
    client: RawClient, version: int
) -> None:
    """As Kafka does: a consumer reads every format up to its own."""
    await keeping(client)
    content = sent(Codec.GZIP)
    await produced(client, content, 2)
    await produced(client, content, 2)

    more = {"max_bytes": 2**31 - 1} if version < 3 else {}
    data = bytes((await fetched(client, 7, version, **more)).records)

    assert data == (9).to_bytes(8) + content[8:]


async def test_consumers_of_format_0_get_it_converted(client: RawClient) -> None:
    """They know neither timestamps nor relative offsets."""
    await keeping(client)
    await produced(client, sent(Codec.GZIP), 2)
    await produced(client, sent(Codec.NONE), 2)

    data = bytes((await fetched(client, 0, 1, max_bytes=2**31 - 1)).records)

    assert {one.magic for one in iterate_entries(data)} == {0}
    assert [one.offset for one in read_any(data)] == list(range(10))


async def test_append_times_are_set_on_the_wrapper_and_its_checksum_made_anew(
    client: RawClient,
) -> None:
    """KIP-32: the messages inside are not touched."""
    await keeping(client, message_timestamp_type="LogAppendTime")
    content = sent(Codec.GZIP)
    answer = await produced(client, content, 2)
    plain = await produced(client, sent(Codec.NONE), 2)

    one, *others = await entries(client)
    (origin,) = iterate_entries(content)
    assert isinstance(origin, OldMessage)
    assert one.timestamp == answer.log_append_time_ms > NOW
    assert one.attributes == origin.attributes | LOG_APPEND_TIME
    assert bytes(one.value) == bytes(origin.value or b"")
    assert {other.timestamp for other in others} == {plain.log_append_time_ms}
    data = bytes((await fetched(client, 0)).records)
    times = [record.timestamp for record in read_any(data)]
    assert times == [answer.log_append_time_ms] * 5 + [plain.log_append_time_ms] * 5


async def test_a_wrappers_time_is_the_largest_inside(client: RawClient) -> None:
    """Lookups by time and retention trust it."""
    await keeping(client)
    inner = message_set(1, MADE)
    await produced(client, wrap(1, Made(4, NOW - 9, None, inner), Codec.GZIP), 2)

    (one,) = await entries(client)

    assert one.timestamp == NOW + 4


@pytest.mark.parametrize(
    "case", ["format 0", "other codec", "wrong offsets", "format 2", "relative start"]
)
async def test_what_cannot_be_kept_becomes_a_batch(client: RawClient, case: str) -> None:
    """As everywhere else; both kinds lie in one log."""
    await keeping(client, compression_type="zstd" if case == "other codec" else "producer")
    shifted = [one._replace(offset=one.offset + 3) for one in MADE]
    content = {
        "format 0": wrapper(0, MADE, Codec.GZIP),
        "other codec": sent(Codec.GZIP),
        "wrong offsets": wrap(1, Made(4, NOW, None, message_set(1, MADE[::2] * 2)), Codec.GZIP),
        "format 2": encode_batch([(NOW, b"k", b"v", ())], BatchOptions()),
        "relative start": wrap(1, Made(7, NOW, None, message_set(1, shifted)), Codec.GZIP),
    }[case]

    answer = await produced(client, content, 3 if case == "format 2" else 2)

    assert answer.error_code == ErrorCode.NONE
    assert {one.magic for one in await entries(client)} == {2}


async def test_faults_are_refused_as_everywhere(client: RawClient) -> None:
    """Nothing of them is stored."""
    await keeping(client, cleanup_policy="compact", max_message_bytes="400")
    spoiled = bytearray(sent(Codec.GZIP))
    spoiled[-1] ^= 1
    keyless = [Made(0, NOW, None, b"v")]
    codes = [
        (await produced(client, bytes(data), 2)).error_code
        for data in (
            spoiled,
            entry(1, MADE[0], LOG_APPEND_TIME),
            sent(Codec.NONE, keyless),
            sent(Codec.GZIP, keyless),
            sent(Codec.NONE, [Made(0, NOW, b"k", b"v" * 400)]),
        )
    ]

    assert codes == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
    ]
    assert (await fetched(client, 0)).high_watermark == 0


async def test_both_kinds_are_compacted_together() -> None:
    """The newest value of each key stays, at its offset, in the form that it came in."""
    async with running_broker() as running, running.connect() as client:
        await keeping(client, cleanup_policy="compact")
        last = [Made(n, NOW, b"k%d" % n, b"x") for n in range(3)]
        for content in (sent(Codec.GZIP), sent(Codec.GZIP, last)):
            await produced(client, content, 2)
        await produced(client, encode_batch([(NOW, b"k3", b"b", ())]))
        await produced(client, sent(Codec.NONE, [Made(0, NOW, b"k9", b"y")]), 2)
        one = partition_of(running)
        one.log.roll(one.log.log_end_offset, 0)
        assert await running.broker.parts.cleaning.clean(one)

        found = await entries(client)
        data = bytes((await fetched(client, 0)).records)

    assert [one.magic for one in found] == [2, 1, 2, 1]
    assert [(one.offset, one.key, one.value) for one in read_any(data)] == [
        (4, b"k4", b"v4"),
        *[(5 + n, b"k%d" % n, b"x") for n in range(3)],
        (8, b"k3", b"b"),
        (9, b"k9", b"y"),
    ]


async def test_the_setting_is_for_one_replica_and_from_the_start(client: RawClient) -> None:
    """Such messages prove no lineage, so nothing may ever copy them to another broker."""
    await keeping(client)
    wanted = CreatableTopic(
        name="two",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
        configs=[CreatableTopicConfig(name=KEEP, value="true")],
    )
    made = await client.call(7, CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
    await create(client, "plain")

    assert made.topics[0].error_code != ErrorCode.NONE
    assert await change(client, (TOPIC, [("retention.ms", "5")])) == [(TOPIC, ErrorCode.NONE)]
    for wish in ((TOPIC, [(KEEP, "false")]), ("plain", [(KEEP, "true")])):
        assert await change(client, wish) == [(wish[0], ErrorCode.INVALID_CONFIG)]
    assert await alter(client, (TOPIC, [])) == [(TOPIC, ErrorCode.INVALID_CONFIG)]
    assert await alter(client, (TOPIC, [(KEEP, "true")])) == [(TOPIC, ErrorCode.NONE)]

"""``ottla produce`` and ``ottla consume`` against a toy cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import is_one_sentence, ottla

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster


@pytest.mark.requirement("ARC-15")
async def test_lines_end_at_newlines_only_and_every_other_byte_is_kept(toy: ToyCluster) -> None:
    """A line reader that also splits at \\r or \\f, or decodes, would change the data."""
    topic = toy.add_topic("t")
    data = b"plain\n\ncarriage\rreturn\r\nform\ffeed\n\xff\xfe not utf-8\nlast without newline"

    sent = await ottla("produce", "t", "-b", toy.bootstrap, stdin=data)
    back = await ottla("consume", "t", "-b", toy.bootstrap, "--from-beginning", "-e")

    assert sent == (0, b"", "")
    assert topic.partitions[0].values() == [
        b"plain",
        b"",
        b"carriage\rreturn\r",
        b"form\ffeed",
        b"\xff\xfe not utf-8",
        b"last without newline",
    ]
    assert back == (0, data + b"\n", "")


async def test_a_separator_splits_off_the_key(toy: ToyCluster) -> None:
    """Only at its first place: values may contain it. A line without it has no key."""
    topic = toy.add_topic("t")
    data = b"a:1\nb:2:3\nno key\n:empty key\n"

    sent = await ottla("produce", "-K", ":", "-b", toy.bootstrap, "t", stdin=data)

    assert sent == (0, b"", "")
    assert [(record.key, record.value) for record in topic.partitions[0].records()] == [
        (b"a", b"1"),
        (b"b", b"2:3"),
        (None, b"no key"),
        (b"", b"empty key"),
    ]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["-o", "7"], b"7\n8\n9\n"),
        (["-o", "-2"], b"8\n9\n"),
        (["-o", "-100", "-n", "2"], b"0\n1\n"),
        (["-o", "beginning", "-n", "1"], b"0\n"),
        (["-o", "end"], b""),
        ([], b""),
        (["-o", "10"], b""),
        (["-o", "@0", "-n", "1"], b"0\n"),
        (["-o", "@1970-01-01", "-n", "1"], b"0\n"),
        (["-o", "@2999-01-01T00:00:00Z"], b""),
        (["--from-beginning", "-n", "3"], b"0\n1\n2\n"),
    ],
)
async def test_reading_begins_where_the_option_says(
    toy: ToyCluster, where: list[str], expected: bytes
) -> None:
    """Offsets from both ends, words and times, with and without a record there."""
    toy.add_topic("t")
    lines = b"".join(b"%d\n" % number for number in range(10))
    await ottla("produce", "t", "-b", toy.bootstrap, stdin=lines)

    assert await ottla("consume", "t", "-b", toy.bootstrap, "-e", *where) == (0, expected, "")


async def test_an_empty_topic_has_been_read_at_once(toy: ToyCluster) -> None:
    """-e must not wait for a first record."""
    toy.add_topic("t", 3)

    assert await ottla("consume", "t", "-e", "-b", toy.bootstrap) == (0, b"", "")


async def test_records_can_be_had_as_lines_of_json(toy: ToyCluster) -> None:
    """Programs read JSON; bytes that are no text come in base64."""
    toy.add_topic("t")
    await ottla("produce", "t", "-b", toy.bootstrap, "-K", "=", stdin=b"k=v\n\xff\n")

    ended = await ottla(
        "--format", "json", "consume", "t", "-b", toy.bootstrap, "--from-beginning", "-e"
    )

    first, second = [json.loads(line) for line in ended.output.splitlines()]
    assert (first["key"], first["value"], first["offset"]) == ("k", "v", 0)
    assert (second["key"], second["value_base64"], second["partition"]) == (None, "/w==", 0)


async def test_a_format_string_arranges_the_fields(toy: ToyCluster) -> None:
    """Format strings as in kcat."""
    toy.add_topic("t")
    await ottla("produce", "t", "-b", toy.bootstrap, "-K", ":", "-H", "h=1", stdin=b"k:v\n")

    ended = await ottla(
        "consume", "t", "-b", toy.bootstrap, "-o", "0", "-e", "-f", r"%t-%p@%o %k=%v [%h] 5%%\n"
    )

    assert ended.output == b"t-0@0 k=v [h=1] 5%\n"


async def test_the_broker_may_be_named_before_the_verb(toy: ToyCluster) -> None:
    """An option before the verb must not be lost to the verb's default."""
    toy.add_topic("t")

    sent = await ottla("-b", toy.bootstrap, "produce", "t", stdin=b"x\n")

    assert sent.status == 0
    assert toy.topics["t"].partitions[0].values() == [b"x"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_can_be_chosen(toy: ToyCluster, codec: str) -> None:
    """Records that were compressed come back unchanged."""
    toy.add_topic("t")
    data = b"repetition\n" * 1000

    await ottla("produce", "t", "-b", toy.bootstrap, "-z", codec, stdin=data)
    back = await ottla("consume", "t", "-b", toy.bootstrap, "--from-beginning", "-e")

    assert back.output == data


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["produce", "nothere"], 1, "topic 'nothere' does not exist"),
        (["consume", "nothere", "-e"], 1, "topic 'nothere' does not exist"),
        (["consume", "t", "-p", "5"], 1, "no partition 5"),
        (["produce", "t", "-p", "5"], 1, "no partition 5"),
        (["consume", "t", "-o", "99"], 1, "not 99"),
        (["consume", "t", "-o", "yesterday"], 2, "'yesterday' is none of"),
        (["consume", "t", "--nonsense"], 2, "--nonsense"),
        (["consume", "t", "-f", "%z"], 2, "no %z"),
        (["consume", "t", "-b", "::1:9"], 2, "no broker address"),
        (["frobnicate"], 2, "no verb 'frobnicate'; there are "),
        (["topcs", "list"], 2, "there is no verb 'topcs'; did you mean 'topics'?\n"),
        (["topics", "lst"], 2, "did you mean 'list'?"),
        (["produce", "t", "--acks", "al"], 2, "did you mean 'all'?"),
        (["produce", "t", "--timout", "1"], 2, "did you mean '--timeout'?"),
        (
            ["topics", "delete", "t", "--yes"],
            2,
            "arguments: --yes; see 'ottla topics delete --help'",
        ),
        (["topics", "delete", "t", "--if-exist"], 2, "did you mean '--if-exists'?"),
        (["topics", "delete", "t", "--sizes"], 2, "arguments: --sizes; see"),
        (["produce", "t", "-K", ":", "-f", "%k %v"], 2, "-f says where the key is"),
        (["produce", "t", "-X", "nonsense=1"], 2, "'nonsense'; docs/settings.md lists them"),
        (["produce", "t", "-X", "max.request.size=8"], 1, "; -X max.request.size=N raises it"),
        (["produce", "t", "-f", "%k %v"], 1, "the separator ' ' is missing"),
        (["consume", "t", "--filter", "valu == 1"], 2, "'valu' is no field of a record"),
    ],
)
async def test_a_mistake_gets_one_sentence_and_a_status(
    toy: ToyCluster, arguments: list[str], status: int, expected: str
) -> None:
    """A traceback does not help a user who has mistyped a name."""
    toy.add_topic("t")
    address = [] if "-b" in arguments or status == 2 else ["-b", toy.bootstrap]

    ended = await ottla(*arguments, *address, stdin=b"x\n")

    assert ended.status == status
    assert ended.output == b""
    assert expected in ended.errors
    assert is_one_sentence(ended.errors)


@pytest.mark.parametrize("verb", ["produce", "consume"])
async def test_an_unreachable_broker_gets_one_sentence(toy: ToyCluster, verb: str) -> None:
    """The command fails at once, so that a mistyped port does not cost a minute of waiting."""
    address = toy.bootstrap
    toy.close()

    ended = await ottla(verb, "t", "-b", address)

    assert ended.status == 1
    assert f"cannot reach a broker at {address}: " in ended.errors
    assert is_one_sentence(ended.errors)

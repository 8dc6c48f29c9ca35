"""Small files that are replaced whole: Kafka's text, and no prefix that passes for the truth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.log.recovery.clean_mark import CleanLog, CleanMark, decode_mark, encode_mark
from ottla.broker.log.storage.checkpoints import (
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    decode_properties,
    decode_wall_clock,
    encode_leader_epochs,
    encode_offsets,
    encode_partition_metadata,
    encode_properties,
    encode_wall_clock,
    read_file,
    replace_file,
)
from ottla.protocol.ids import TopicPartition
from tests.broker.log.crash_disk import CrashDisk, PowerCut

OFFSETS = {TopicPartition("orders", 0): 1234, TopicPartition("a.b_c-d", 11): 0}
EPOCHS = [(0, 0), (3, 120), (4, 130)]
TOPIC_ID = bytes.fromhex("c1f4a3b20d1e4f5a8b6c7d8e9fa0b1c2")
MARK = CleanMark(1, 42, {TopicPartition("orders", 0): CleanLog(7, 0, 300)})


def test_an_offset_checkpoint_is_kafkas_text() -> None:
    """Version, count, then one line for each partition."""
    assert encode_offsets(OFFSETS) == b"0\n2\na.b_c-d 11 0\norders 0 1234\n"


def test_leader_epochs_and_topic_id_are_kafkas_text() -> None:
    """Each partition's directory has both files."""
    assert encode_leader_epochs(EPOCHS) == b"0\n3\n0 0\n3 120\n4 130\n"
    assert encode_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: wfSjsg0eT1qLbH2On6Cxwg\n"


def test_no_prefix_of_a_time_is_another_time() -> None:
    """S-18: an earlier time than the true one would look like a jump, a spoiled one like none."""
    content = encode_wall_clock(1_700_000_000_123)

    assert content == b"0\n1\n1700000000123\n"
    assert decode_wall_clock(content) == 1_700_000_000_123
    assert all(decode_wall_clock(content[:cut]) is None for cut in range(len(content)))
    assert [decode_wall_clock(bad) for bad in (None, b"0\n1\n-5\n", b"0\n1\n1 2\n")] == [None] * 3


@given(
    st.dictionaries(
        st.builds(
            TopicPartition, st.from_regex(r"[a-z0-9._-]{1,20}", fullmatch=True), st.integers(0)
        ),
        st.integers(0, 2**63 - 1),
        max_size=5,
    )
)
def test_every_strict_prefix_of_an_offset_checkpoint_is_refused(
    offsets: dict[TopicPartition, int],
) -> None:
    """S-08: a file cut by a crash must count as absent, not as a shorter or smaller truth."""
    content = encode_offsets(offsets)

    assert decode_offsets(content) == offsets
    assert all(decode_offsets(content[:cut]) is None for cut in range(len(content)))


def test_every_strict_prefix_of_leader_epochs_is_refused() -> None:
    """A missing last epoch would let a divergent tail survive (R-03)."""
    content = encode_leader_epochs(EPOCHS)

    assert decode_leader_epochs(content) == EPOCHS
    assert all(decode_leader_epochs(content[:cut]) is None for cut in range(len(content)))


def test_no_prefix_of_a_topic_id_is_another_topic_id() -> None:
    """Kafka writes the file without the last newline, so that one may be missing."""
    content = encode_partition_metadata(TOPIC_ID)
    found = {decode_partition_metadata(content[:cut]) for cut in range(len(content) + 1)}

    assert found == {None, TOPIC_ID}


def test_every_strict_prefix_of_a_clean_mark_is_refused() -> None:
    """S-05: a mark that was not finished is no mark."""
    content = encode_mark(MARK)

    assert decode_mark(content) == MARK
    assert all(decode_mark(content[:cut]) is None for cut in range(len(content)))


@pytest.mark.parametrize(
    "content", [b"", b"1\n0\n", b"0\n1\norders 0\n", b"0\n1\norders 0 x\n", b"0\n-1\n", b"\xff\n"]
)
def test_spoiled_offset_checkpoints_are_refused(content: bytes) -> None:
    """Another version, a missing field, no number, a wrong count, no text."""
    assert decode_offsets(content) is None


@pytest.mark.parametrize("content", [b"0\n2\n1 5\n1 6\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1\n"])
def test_leader_epochs_that_do_not_ascend_are_refused(content: bytes) -> None:
    """The broker writes both columns strictly ascending."""
    assert decode_leader_epochs(content) is None


@pytest.mark.parametrize("content", [b"[]", b"null", b'{"version":0}', b'{"version":1}', b"{"])
def test_marks_of_another_make_are_no_marks(content: bytes) -> None:
    """Kafka's own mark is an empty file or has no list of logs: then nothing was clean."""
    assert decode_mark(content) is None


def test_java_properties_are_read_as_kafka_writes_them() -> None:
    """A date comment, blanks around the sign, colons."""
    text = b"#\n#Sat Nov 21 02:00:22 UTC 2026\nversion=0\n broker.id = 1 \ncluster.id: abc\n\n"

    assert decode_properties(text) == {"version": "0", "broker.id": "1", "cluster.id": "abc"}
    assert decode_properties(encode_properties({"a": "1", "b": "x=y"})) == {"a": "1", "b": "x=y"}


async def test_replacing_a_file_is_all_or_nothing_at_every_power_cut() -> None:
    """S-08: whatever operation is the last, the file is the old or the new one, whole."""
    for crash_at in range(1, 7):
        for seed in range(20):
            disk = CrashDisk()
            await replace_file(disk, "/file", b"old" * 500)
            disk.crash_at = disk.changes + crash_at
            finished = False
            try:
                await replace_file(disk, "/file", b"new" * 500)
                finished = True
            except PowerCut:
                pass
            content = read_file(disk.power_cut(seed, ordered=False), "/file")

            assert content == b"new" * 500 or (content == b"old" * 500 and not finished)


async def test_a_temporary_file_of_an_earlier_attempt_is_overwritten() -> None:
    """Its rest must not become the end of the next content."""
    disk = CrashDisk()
    disk.open("/file.tmp", create=True).append([b"x" * 100])

    await replace_file(disk, "/file", b"short")

    assert read_file(disk, "/file") == b"short"
    assert read_file(disk, "/other") is None

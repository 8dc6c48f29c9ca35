"""Small text files, replaced as a whole: offset checkpoints, leader epochs, topic ids, identity.

Written as temporary file, fsync, rename, fsync of the directory (hazard S-08). Every parser rejects
each strict prefix of a valid file, so a file cut by a crash counts as absent, never as a shorter
one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.names import parent_of
from ottla.protocol.ids import TopicPartition, uuid_from_text, uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.protocol.ports import Disk

_TEMPORARY = ".tmp"
_VERSION = "0"
FILE_BYTES_MAX = 256 * 1024 * 1024


async def replace_file(disk: Disk, path: str, content: bytes) -> None:
    """Replace the file's content, durably or not at all. Raises OSError."""
    temporary = path + _TEMPORARY
    file = disk.open(temporary, create=True)
    if file.size_bytes:
        file.truncate(0)
    file.append([content])
    await file.fsync()
    await disk.rename(temporary, path)
    await disk.fsync_directory(parent_of(path))


def read_file(disk: Disk, path: str) -> bytes | None:
    """The whole file; None if it does not exist. Raises OSError for other errors."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    return file.pread(min(file.size_bytes, FILE_BYTES_MAX), 0)


def _encode_lines(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()


def _decode_lines(content: bytes | None) -> list[list[str]] | None:
    """The fields of each line; None unless version, count and last newline are valid."""
    if content is None or not content.endswith(b"\n"):
        return None
    try:
        version, count, *lines = content.decode().removesuffix("\n").split("\n")
        if version != _VERSION or int(count) != len(lines):
            return None
    except ValueError:
        return None
    return [line.split(" ") for line in lines]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint, sorted so that equal states make equal files."""
    return _encode_lines(
        [f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items())]
    )


def decode_offsets(content: bytes | None) -> dict[TopicPartition, int] | None:
    """The offsets by partition; None for an absent or corrupt file."""
    lines = _decode_lines(content)
    if lines is None:
        return None
    offsets: dict[TopicPartition, int] = {}
    try:
        for topic, partition, offset in lines:
            offsets[TopicPartition(topic, int(partition))] = int(offset)
    except ValueError:
        return None
    return offsets


def encode_wall_clock(wall_ms: int) -> bytes:
    """A wall clock checkpoint, milliseconds."""
    return _encode_lines([str(wall_ms)])


def decode_wall_clock(content: bytes | None) -> int | None:
    """The time in milliseconds; None for an absent or corrupt file."""
    match _decode_lines(content):
        case [[text]] if text.isdecimal() and text.isascii():
            return int(text)
    return None


def encode_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """A leader epoch checkpoint of (epoch, start offset)."""
    return _encode_lines([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def decode_leader_epochs(content: bytes | None) -> list[tuple[int, int]] | None:
    """Strictly ascending (epoch, start offset); None for an absent or corrupt file."""
    lines = _decode_lines(content)
    if lines is None:
        return None
    entries: list[tuple[int, int]] = []
    try:
        for epoch_text, start_text in lines:
            epoch, start_offset = int(epoch_text), int(start_text)
            if entries and (epoch <= entries[-1][0] or start_offset <= entries[-1][1]):
                return None
            entries.append((epoch, start_offset))
    except ValueError:
        return None
    return entries


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """The ``partition.metadata`` of a topic id."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()


def decode_partition_metadata(content: bytes | None) -> bytes | None:
    """The topic id; None for an absent or corrupt file. Kafka writes no final newline."""
    if content is None:
        return None
    try:
        version, topic_id = content.decode().removesuffix("\n").split("\n")
        if version != "version: 0" or not topic_id.startswith("topic_id: "):
            return None
        text = topic_id.removeprefix("topic_id: ")
        return uuid_from_text(text) if len(text) == 22 else None
    except ValueError:
        return None


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Java properties whose keys and values need no escapes, in the order given."""
    return "".join(f"{key}={value}\n" for key, value in properties.items()).encode()


def decode_properties(content: bytes) -> dict[str, str]:
    """Keys and values of a Java properties file; comments and blank lines are skipped."""
    properties: dict[str, str] = {}
    for line in content.decode("iso-8859-1").splitlines():
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, separator, value = text.partition("=")
        if not separator:
            key, _, value = text.partition(":")
        properties[key.strip()] = value.strip()
    return properties

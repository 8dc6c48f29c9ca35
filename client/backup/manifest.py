"""What one backup holds, and its form as a JSON file with a checksum. Pure.

A backup is a manifest; the files with records that it names are shared with the backups before and
after it. docs/internals/backup.md describes the layout.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ottla.client.backup.errors import DamagedBackup
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 1
MANIFESTS = "manifests/"
RECORDS = "records/"
RESTORES = "restores/"
UNFINISHED = "unfinished.json"


class StoredFile(NamedTuple):
    """A file of whole record batches, as the leader sent them, and the offsets that it covers."""

    name: str
    size_bytes: int
    sha256: str
    first_offset: int
    next_offset: int


class Stretch(NamedTuple):
    """The offsets of one transaction in a partition: from its first batch up to its marker, or up
    to where the copy ends."""

    producer_id: int
    first_offset: int
    end_offset: int


class PartitionCopy(NamedTuple):
    """One partition up to ``end_offset``.

    ``aborted`` transactions are never restored. ``undecided`` ones were open where the copy ends:
    the next backup learns how they ended. ``late`` ones committed here before that end, but in
    another partition after it: this backup has nothing of them, the next one all of them."""

    partition: int
    log_start: int
    end_offset: int
    files: tuple[StoredFile, ...] = ()
    aborted: tuple[Stretch, ...] = ()
    undecided: tuple[Stretch, ...] = ()
    late: tuple[Stretch, ...] = ()

    @property
    def left_out(self) -> tuple[Stretch, ...]:
        """The transactions of which this backup has nothing."""
        return (*self.aborted, *self.undecided, *self.late)


class TopicCopy(NamedTuple):
    """One topic; ``configs`` are those set on the topic itself."""

    name: str
    topic_id: str
    replication_factor: int
    configs: dict[str, str]
    partitions: tuple[PartitionCopy, ...]


class GroupPosition(NamedTuple):
    """A committed position of a group, never beyond the copied end of its partition."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str


class BackupManifest(NamedTuple):
    """One backup.

    ``is_exact``: the positions of groups belong to the same moment as the transactions (else they
    are somewhat older). ``notes`` are sentences for a person. ``acls``, ``quotas`` and ``users``
    are None if they were not asked for; of users there are no passwords."""

    number: int
    time_ms: int
    cluster_id: str
    is_exact: bool
    topics: tuple[TopicCopy, ...]
    positions: tuple[GroupPosition, ...]
    notes: tuple[str, ...] = ()
    acls: list[dict[str, Any]] | None = None
    quotas: list[dict[str, Any]] | None = None
    users: list[dict[str, Any]] | None = None

    def topic(self, name: str) -> TopicCopy | None:
        """The topic of that name, or None."""
        return next((one for one in self.topics if one.name == name), None)

    @property
    def files(self) -> list[StoredFile]:
        """All files with records."""
        return [file for topic in self.topics for copy in topic.partitions for file in copy.files]


def manifest_name(number: int) -> str:
    """The manifest's name in the store."""
    return f"{MANIFESTS}{number:08d}.json"


def number_of(name: str) -> int | None:
    """The number of the backup with this manifest; None if it is no manifest's name."""
    stem = name.removeprefix(MANIFESTS).removesuffix(".json")
    return int(stem) if stem.isdecimal() and manifest_name(int(stem)) == name else None


def file_name(topic: TopicCopy, partition: int, first_offset: int, next_offset: int) -> str:
    """The name of a file with records."""
    directory = f"{RECORDS}{topic.name}/{topic.topic_id or 'no-id'}/{partition}"
    return f"{directory}/{first_offset:020d}-{next_offset:020d}.batches"


def sealed(document: dict[str, Any]) -> bytes:
    """The document as JSON, with its checksum."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"sha256":"{digest}","content":{text}}}\n'.encode()


def unsealed(name: str, data: bytes) -> dict[str, Any]:
    """The document in a file. Raises DamagedBackup."""
    try:
        outer = json.loads(data)
        content: dict[str, Any] = outer["content"]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        is_whole = hashlib.sha256(text.encode()).hexdigest() == outer["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedBackup(f"{name} is damaged: {error}") from error
    if not is_whole:
        raise DamagedBackup(f"{name} is damaged: its checksum does not fit")
    if content.get("format") != FORMAT:
        raise DamagedBackup(f"{name} is of format {content.get('format')}, not {FORMAT}")
    return content


def to_document(manifest: BackupManifest) -> dict[str, Any]:
    """The manifest as plain values."""
    document = manifest._asdict()
    document["format"] = FORMAT
    document["topics"] = [topic_document(topic) for topic in manifest.topics]
    document["positions"] = [list(one) for one in manifest.positions]
    return document


def from_document(document: dict[str, Any]) -> BackupManifest:
    """The manifest in plain values. Raises DamagedBackup."""
    try:
        fields = {name: document[name] for name in BackupManifest._fields}
        fields["topics"] = tuple(read_topic(one) for one in document["topics"])
        fields["positions"] = tuple(GroupPosition(*one) for one in document["positions"])
        fields["notes"] = tuple(document["notes"])
        return BackupManifest(**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedBackup(f"a manifest lacks something: {error}") from error


def topic_document(topic: TopicCopy) -> dict[str, Any]:
    """One topic as plain values."""
    document = topic._asdict()
    document["partitions"] = [
        {name: _plain(value) for name, value in copy._asdict().items()} for copy in topic.partitions
    ]
    return document


def _plain(value: int | Sequence[tuple[object, ...]]) -> object:
    return value if isinstance(value, int) else [list(one) for one in value]


def read_topic(document: dict[str, Any]) -> TopicCopy:
    """One topic. Raises KeyError, TypeError or ValueError."""
    copies = [
        PartitionCopy(
            one["partition"],
            one["log_start"],
            one["end_offset"],
            tuple(StoredFile(*file) for file in one["files"]),
            *(
                tuple(Stretch(*stretch) for stretch in one[kind])
                for kind in ("aborted", "undecided", "late")
            ),
        )
        for one in document["partitions"]
    ]
    fields = {name: document[name] for name in TopicCopy._fields}
    return TopicCopy(**{**fields, "partitions": tuple(copies)})

"""The identity of a data directory: its cluster, its broker and its sibling directories.

A broker on the wrong disk would take everything there for leftovers (hazard S-32), so it refuses to
start on a mismatch. Each directory also stores the ids of the others: an empty mount point is
noticed, and the partitions of its disk are not recreated as if new (S-13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.storage.checkpoints import (
    decode_properties,
    encode_properties,
    read_file,
    replace_file,
)
from ottla.broker.log.storage.names import META_PROPERTIES, join
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import is_usable_uuid, uuid_from_text, uuid_to_text
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ports import Disk, Random

_SIBLINGS = "ottla.directory.ids"


class DirectoryIdentity(NamedTuple):
    """The content of ``meta.properties``. ``siblings``: ids of all directories of the broker."""

    broker_id: int
    cluster_id: str
    directory_id: str
    siblings: frozenset[str]


def draw_directory_id(random: Random) -> str:
    """A fresh uuid in Kafka's text form."""
    while not is_usable_uuid(token := random.token(16)):
        continue
    return uuid_to_text(token)


def read_identity(disk: Disk, path: str) -> DirectoryIdentity | None:
    """The identity of a directory; None if it has none yet.

    Raises OSError; KafkaError(INVALID_CONFIG) if it cannot be parsed."""
    meta_path = join(path, META_PROPERTIES)
    content = read_file(disk, meta_path)
    if content is None:
        return None
    properties = decode_properties(content)
    try:
        if properties.get("version") != "0":
            raise ValueError(f"version {properties.get('version')}")
        broker_id = int(properties["broker.id"])
        directory_id = properties.get("directory.id", "")
        if directory_id:
            uuid_from_text(directory_id)
    except (KeyError, ValueError) as error:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{meta_path} cannot be understood ({error}). If the directory is new, remove the "
            f"file; if it holds data, restore the file from a copy.",
        ) from error
    siblings = frozenset(filter(None, properties.get(_SIBLINGS, "").split(",")))
    return DirectoryIdentity(broker_id, properties.get("cluster.id", ""), directory_id, siblings)


async def write_identity(disk: Disk, path: str, identity: DirectoryIdentity) -> None:
    """Write ``meta.properties``, durably. Raises OSError."""
    properties = {
        "version": "0",
        "broker.id": str(identity.broker_id),
        "cluster.id": identity.cluster_id,
        "directory.id": identity.directory_id,
        _SIBLINGS: ",".join(sorted(identity.siblings)),
    }
    await replace_file(disk, join(path, META_PROPERTIES), encode_properties(properties))


def check_identity(path: str, found: DirectoryIdentity, broker_id: int, cluster_id: str) -> None:
    """Raise KafkaError, with advice, if the directory belongs to another cluster or broker."""
    if found.cluster_id and found.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"{path} holds data of cluster {found.cluster_id}, but this broker belongs to cluster "
            f"{cluster_id}. Point log.dirs at this cluster's data, or the broker at that cluster.",
        )
    if found.broker_id != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{path} holds data of broker {found.broker_id}, but broker.id is {broker_id}. "
            f"Point log.dirs at this broker's data, or set broker.id={found.broker_id}.",
        )


def missing_directories(present: Iterable[DirectoryIdentity]) -> frozenset[str]:
    """Ids of directories that another one lists as a sibling and that are missing."""
    identities = list(present)
    known = frozenset[str]().union(*(identity.siblings for identity in identities))
    return known - {identity.directory_id for identity in identities}

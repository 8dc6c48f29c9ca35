"""What every cluster needs in its store, made by whichever broker starts first.

All brokers of a new cluster may try at the same moment; one of them makes each znode, and all of
them read what was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, GroupFailed, NodeExists
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import is_usable_uuid, uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Random


async def found_cluster(session: MetadataSession, random: Random) -> tuple[str, int]:
    """The cluster's id and its controller epoch, made if they are not there.

    Raises StoreError, and KafkaError (INCONSISTENT_CLUSTER_ID) if the id is unreadable."""
    wanted = dict.fromkeys(paths.PERMANENT_PATHS, b"")
    wanted[paths.CONTROLLER_EPOCH] = paths.build_number(0)
    wanted[paths.CLUSTER_ID] = paths.build_cluster_id(_draw_id(random))
    await _ensure_all(session, wanted)
    epoch = paths.parse_number((await session.get(paths.CONTROLLER_EPOCH)).data)
    cluster_id = paths.parse_cluster_id((await session.get(paths.CLUSTER_ID)).data)
    if cluster_id is None:
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, "/cluster/id is unreadable")
    return cluster_id, epoch or 0


async def ensure(session: MetadataSession, path: str, data: bytes = b"") -> None:
    """Make the znode unless it is there. Raises StoreError."""
    if await session.exists(path) is None:
        try:
            await session.create(path, data)
        except NodeExists:
            return


async def _ensure_all(session: MetadataSession, wanted: Mapping[str, bytes]) -> None:
    """Make the znodes that are not there, parents first: in one write, as each waits for a disk."""
    missing = [
        Create(path, data) for path, data in wanted.items() if await session.exists(path) is None
    ]
    try:
        if missing:
            await session.multi(missing)
    except GroupFailed as failed:
        if not isinstance(failed.error, NodeExists):
            raise
        # Another broker starts at this very moment.
        for one in missing:
            await ensure(session, one.path, one.data)


def _draw_id(random: Random) -> str:
    while True:
        drawn = random.token(16)
        if is_usable_uuid(drawn):
            return uuid_to_text(drawn)

"""Reads from the simulated disk what survives a power cut, at the moment of the cut.

Looks at the segment files in Kafka's layout with the oracles' own reader of batches, and counts
only bytes and names that are certain to survive.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.clients.batches import durable_end

if TYPE_CHECKING:
    from tests.simulation.history import Partition
    from tests.simulation.world.filesystem import SimFileSystem
    from tests.simulation.world.inode import Inode

SEGMENT = re.compile(r"/(?P<topic>[^/]+)-(?P<partition>\d+)/(?P<base>\d{20})\.log$")


def durable_ends(files: SimFileSystem) -> dict[Partition, int]:
    """Per partition, the offset below which every record is safe on the disk."""
    segments: dict[Partition, list[tuple[int, Inode]]] = defaultdict(list)
    for path, inode in files.files(durable=True):
        match = SEGMENT.search(path)
        if match:
            partition = (match["topic"], int(match["partition"]))
            segments[partition].append((int(match["base"]), inode))
    return {partition: _end(sorted(found, key=_base)) for partition, found in segments.items()}


def damaged_partitions(files: SimFileSystem) -> set[Partition]:
    """Those with pages that a failed fsync has lost."""
    found = (SEGMENT.search(path) for path, inode in files.files() if inode.has_ghosts)
    return {(match["topic"], int(match["partition"])) for match in found if match}


def _base(segment: tuple[int, Inode]) -> int:
    return segment[0]


def _end(segments: list[tuple[int, Inode]]) -> int:
    end = segments[0][0]
    for base, inode in segments:
        if base > end:
            break
        size_bytes = inode.durable_prefix_bytes
        end = durable_end(memoryview(bytes(inode.data[:size_bytes])), end)
        if size_bytes < len(inode.data):
            break
    return end

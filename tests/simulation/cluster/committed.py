"""The committed part of every partition, as the first replica showed it; all others must agree.

Reads the replicas' files below their high watermarks, each byte once for each life of a replica.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from tests.simulation.clients.batches import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.log.storage.segment import Segment
    from ottla.broker.partitions.partition import PartitionRuntime
    from tests.simulation.world.node import Node

HEADER_BYTES = 12
Identity = tuple[bytes, int]


def _agree(one: bytes, other: bytes) -> bool:
    """Whether two batches may be the same one: compaction takes records out of the one replica's
    earlier than of the other's, and changes none."""
    if one == other:
        return True
    (first,) = read_batches(memoryview(one))
    (second,) = read_batches(memoryview(other))
    if any(not batch.values and batch.control_type is None for batch in (first, second)):
        # Where all records are gone an empty batch keeps the place, and nothing else.
        return True
    known = dict(first.values)
    return first.identity == second.identity and all(
        known.get(offset, value) == value for offset, value in second.values
    )


class Committed:
    """Batches by their base offset; the violation callback gets a key and a sentence."""

    def __init__(self, violation: Callable[[str, str], object]) -> None:
        self._violation = violation
        self._batches: dict[Identity, dict[int, bytes]] = {}
        # How far each life of a replica has been compared.
        self._compared: dict[object, int] = {}

    def batches(self, identity: Identity) -> dict[int, bytes]:
        """Committed batches, as far as readers have seen them."""
        return self._batches.setdefault(identity, {})

    def compare(
        self, where: str, identity: Identity, node: Node, runtime: PartitionRuntime
    ) -> None:
        """All that has come below this replica's watermark since it was looked at last."""
        log, end = runtime.log, runtime.replica.high_watermark
        life = (node.name, node.incarnation, identity)
        offset = max(self._compared.get(life, 0), log.log_start_offset)
        if offset >= end:
            return
        truth = self.batches(identity)
        is_compacted = runtime.settings.append_rules.is_compacted
        agrees = _agree if is_compacted else operator.eq
        for segment in log.segments:
            if segment.next_offset > offset and segment.base_offset < end:
                span = (offset, end)
                try:
                    offset = self._compare_segment(where, truth, node, segment, span, agrees)
                except FileNotFoundError:
                    # A cleaned one is about to take its place; it is looked at then.
                    break
        self._compared[life] = offset

    def _compare_segment(
        self,
        where: str,
        truth: dict[int, bytes],
        node: Node,
        segment: Segment,
        span: tuple[int, int],
        agrees: Callable[[bytes, bytes], bool],
    ) -> int:
        offset, end = span
        data = node.files.file(segment.path).data
        position = segment.starts.get(offset, 0)
        while position + HEADER_BYTES < segment.size_bytes:
            base = int.from_bytes(data[position : position + 8])
            size = HEADER_BYTES + int.from_bytes(data[position + 8 : position + HEADER_BYTES])
            if base >= end:
                break
            if base >= offset:
                batch = bytes(data[position : position + size])
                if not agrees(truth.setdefault(base, batch), batch):
                    self._violation(
                        f"{where} differs",
                        f"replicas differ: {where} has other bytes at committed offset {base}",
                    )
                offset = base + 1 + int.from_bytes(data[position + 23 : position + 27])
            position += size
        return max(offset, min(segment.next_offset, end))

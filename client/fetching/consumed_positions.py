"""Hands out a consumer's records, and computes the positions that may be committed.

Positions are past all records that have left the buffer. Records that were not handed out, or may
be unfinished, begin earlier; they are known here, and put back if needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.returned_records import ReturnedRecords
from ottla.client.records.committed import Committed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.fetching.fetcher import Fetcher
    from ottla.protocol.ids import TopicPartition


class ConsumedPositions:
    """Owned by one consumer."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.returned = ReturnedRecords()
        self._fetcher = fetcher
        self._positions = fetcher.positions

    def interrupt(self) -> None:
        """Stop the iteration; its remaining records are fetched again when they are wanted."""
        if offsets := self.returned.interrupt():
            self._put_back(offsets)

    def rewind(self) -> None:
        """Go back to the first records that the application may not have finished."""
        if offsets := {**self.returned.interrupt(), **self.returned.unfinished()}:
            self._put_back(offsets)

    def settle(self, positions: Mapping[TopicPartition, Committed]) -> None:
        """Record the application's own commit: it has finished all before these positions."""
        places = self._positions
        known = {
            where: position for where in positions if (position := places.get(where)) is not None
        }
        self.returned.settle(
            {
                where: min(positions[where].offset, position.offset)
                for where, position in known.items()
                if position.offset is not None
            }
        )

    def _put_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        for where, offset in offsets.items():
            self._positions.put_back(where, offset)
        self._fetcher.drop_stale_fetches()
        self._fetcher.wake()

    def given(self) -> dict[TopicPartition, Committed]:
        """Return all positions, after the records that the application was given."""
        return self._positions_but(self.returned.waiting())

    def finished(self) -> dict[TopicPartition, Committed]:
        """Return all positions, after the records that the application has certainly finished."""
        return self._positions_but(self.returned.unfinished())

    def _positions_but(
        self, earlier: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Committed]:
        found = {}
        for where in self._positions.partitions:
            offset = earlier.get(where, self._positions[where].offset)
            if offset is not None:
                found[where] = Committed(offset)
        return found

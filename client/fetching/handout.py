"""What a consumer hands out, against what its application has finished with.

Positions are past everything that has left the buffer. Whatever was not handed out after all, or
may be in work, begins earlier; here that is known, and put back where it must be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.fetching.consumed import ReturnedRecords
from ottla.client.records.committed import Committed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.fetching.fetcher import Fetcher
    from ottla.protocol.ids import TopicPartition


class RecordHandout:
    """Owned by one consumer."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.handed = ReturnedRecords()
        self._fetcher = fetcher
        self._positions = fetcher.positions

    def interrupt(self) -> None:
        """Hand out no more of what the iteration holds; it is fetched again when it is wanted."""
        self._put_back(self.handed.interrupt())

    def rewind(self) -> None:
        """Whatever may be in work has not been read."""
        self._put_back({**self.handed.interrupt(), **self.handed.unfinished()})

    def settle(self, positions: Mapping[TopicPartition, Committed]) -> None:
        """The application commits these by itself: it has finished with what is before them."""
        places = self._positions
        known = {where: place for where in positions if (place := places.get(where)) is not None}
        self.handed.settle(
            {
                where: min(positions[where].offset, place.offset)
                for where, place in known.items()
                if place.offset is not None
            }
        )

    def _put_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        for where, offset in offsets.items():
            self._positions.put_back(where, offset)
        if offsets:
            self._fetcher.drop_stale_chunks()
            self._fetcher.wake()

    def given(self) -> dict[TopicPartition, Committed]:
        """All positions, after what the application was given."""
        return self._positions_but(self.handed.waiting())

    def finished(self) -> dict[TopicPartition, Committed]:
        """All positions, after what the application has certainly finished with."""
        return self._positions_but(self.handed.unfinished())

    def _positions_but(
        self, earlier: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Committed]:
        found = {}
        for where in self._positions.partitions:
            offset = earlier.get(where, self._positions[where].offset)
            if offset is not None:
                found[where] = Committed(offset)
        return found

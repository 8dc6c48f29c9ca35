"""Records that were shown to committed readers before the end of their transaction was replicated
(hazard T-17): the next leader may not have that end, and the transaction is open again.

The verdict is in its coordinator's log by then, so a history does not show this; offsets do. A
marker is final once the high watermark has passed it, and a reader that was given the records it
ends was given a high watermark beyond it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.clients.batches import Batch
    from tests.simulation.history import Partition


@dataclass(slots=True)
class Showings:
    """One per run: what committed readers were shown, and where the markers lie in the end."""

    # Partition and producer id; the last offset of a batch, and the watermark told with it.
    _shown: dict[tuple[Partition, int], list[tuple[int, int]]] = field(default_factory=dict)
    _markers: dict[tuple[Partition, int], list[int]] = field(default_factory=dict)

    def shown(self, partition: Partition, batch: Batch, high_watermark: int) -> None:
        """A batch of a transaction that was not hidden."""
        place = partition, batch.producer_id
        self._shown.setdefault(place, []).append((batch.last_offset, high_watermark))

    def marker(self, partition: Partition, batch: Batch) -> None:
        """An end, as it was read at last."""
        self._markers.setdefault((partition, batch.producer_id), []).append(batch.base_offset)

    def violations(self) -> list[str]:
        """Records that were shown too early; markers that are gone with their segment prove
        nothing."""
        found = []
        for (partition, producer_id), shown in sorted(self._shown.items()):
            markers = sorted(self._markers.get((partition, producer_id), ()))
            for offset, high_watermark in sorted(set(shown)):
                number = bisect_right(markers, offset)
                if number < len(markers) and high_watermark <= markers[number]:
                    found.append(
                        "{}-{}: ".format(*partition)
                        + f"offset {offset} was shown under a high watermark of {high_watermark}; "
                        f"its transaction ends at {markers[number]}"
                    )
        return found

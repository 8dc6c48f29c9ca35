"""Conversions for consumers of the formats before record batches, off the event loop.

A step takes about a millisecond in a worker, so the event loop never waits longer for the
interpreter. Stored bytes are read when they are converted; what waits for its turn holds none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.protocol.message_sets.lowering import Lowering
    from ottla.protocol.ports import Offload

# Answers that are made at the same time, each of a bounded size.
_AT_ONCE_MAX = 2
# No message begins behind this in an answer: a consumer of these versions may ask for everything in
# one request, and the event loop copies an answer at once, a MiB in a fraction of a millisecond.
ANSWER_ENOUGH_BYTES = 1024 * 1024


class Conversions:
    """Owned by the broker's reads."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self.turns = asyncio.Semaphore(_AT_ONCE_MAX)

    async def run(self, lowering: Lowering) -> None:
        """Carry the conversion out. Raises OSError."""
        while await self._offload.run(lowering.step):
            pass

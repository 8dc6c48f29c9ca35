"""Converts records for consumers of formats before record batches, off the event loop.

A step takes about a millisecond in a worker thread, which bounds how long the event loop waits for
the interpreter lock. Stored bytes are read only when they are converted; queued conversions hold
none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.protocol.message_sets.lowering import Lowering
    from ottla.protocol.ports import Offload

# Maximum number of concurrent conversions, each of a bounded size.
_AT_ONCE_MAX = 2
# No message begins after this size: a consumer of these versions may ask for everything in one
# request, and the event loop copies the answer in one step, a MiB in a fraction of a millisecond.
ANSWER_ENOUGH_BYTES = 1024 * 1024


class Conversions:
    """Owned by the broker's reads."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self.turns = asyncio.Semaphore(_AT_ONCE_MAX)

    async def run(self, lowering: Lowering) -> None:
        """Run the conversion. Raises OSError."""
        while await self._offload.run(lowering.step):
            pass

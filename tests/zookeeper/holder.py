"""A process that holds a session and says at every look what it believes; the test freezes it.

``python -m tests.zookeeper.holder CONNECT TIMEOUT_MS PATH``
"""

from __future__ import annotations

import asyncio
import sys

from ottla.coordinator.store.store import SessionState
from tests.zookeeper.sessions import open_store

LOOK_SECONDS = 0.01


async def hold(connect: str, timeout_ms: int, path: str) -> None:
    """One line per look; ends when the session is lost."""
    store = await open_store(connect)
    session = await store.connect(timeout_ms)
    await session.create(path, ephemeral=True)
    while session.state is not SessionState.LOST:
        sys.stdout.write(f"{session.state.value}\n")
        sys.stdout.flush()
        await asyncio.sleep(LOOK_SECONDS)
    sys.stdout.write("lost\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(hold(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

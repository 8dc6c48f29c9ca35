"""The thread whose event loop serves callers that block."""

from __future__ import annotations

import asyncio
import threading
import time

from ottla.client.process.loop_thread import LoopThread


def test_a_stopped_loop_leaves_no_thread_behind() -> None:
    """A lookup of a host name runs in a thread of the loop's executor, which ends with the loop."""
    threads = set(threading.enumerate())
    serving = LoopThread("test")

    async def look_up() -> None:
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.01)
        # It still runs when the loop stops.
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.2)

    serving.call(look_up)
    serving.stop()

    assert set(threading.enumerate()) <= threads

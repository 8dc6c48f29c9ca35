"""The background tasks of a client."""

from __future__ import annotations

import asyncio

from ottla.client.process.tasks import guarded


async def test_an_error_in_a_callback_is_told_and_not_only_logged() -> None:
    """A batch whose answer was never dealt with would be on its way for ever."""
    crashes: list[BaseException] = []
    future = asyncio.get_running_loop().create_future()
    future.add_done_callback(guarded(lambda done: done.result()["missing"], crashes.append))
    future.set_result({})
    await asyncio.sleep(0)

    assert [type(crash) for crash in crashes] == [KeyError]

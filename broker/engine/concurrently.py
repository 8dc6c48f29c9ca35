"""Many questions on their way at once, to the store or to a disk: one after the other, each would
cost a round trip, and a failover of thousands of partitions would take as many of them (C-16)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# Enough to hide a round trip, few enough for the store to answer its other clients meanwhile.
WINDOW = 200


async def pipelined(
    ask: Callable[[Item], Awaitable[Answer]], items: Sequence[Item], window: int = WINDOW
) -> list[Answer]:
    """The answers, in the order of the items. Raises what the first that failed raised.

    At most ``window`` at once. Cancelled, it ends when all that are under way have."""
    answers: list[Answer] = []
    for start in range(0, len(items), window):
        if start + 1 == min(start + window, len(items)):
            # Alone it needs no task.
            answers.append(await ask(items[start]))
            continue
        asked = [ask(item) for item in items[start : start + window]]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            answers.append(outcome)
    return answers

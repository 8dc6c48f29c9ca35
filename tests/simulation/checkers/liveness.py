"""When faults have stopped, everything drains: writes are settled, logs can be read to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.history import Fate

if TYPE_CHECKING:
    from tests.simulation.history import History


def check(history: History) -> list[str]:
    """Violations in words."""
    open_writes = [write for write in history.writes if write.fate is Fate.OPEN]
    found = [f"stuck: {what}" for what in history.stuck]
    if open_writes:
        first = open_writes[0]
        found.append(
            f"stuck: {len(open_writes)} writes are still open, such as {first.value[:24]!r} "
            f"in {first.partition}"
        )
    unread = {write.partition for write in history.writes} - history.finals.keys()
    unread -= history.offline & history.damaged
    found += [f"stuck: {partition} could not be read at the end" for partition in sorted(unread)]
    return found

"""Loading without looking for garbage: modules are made to stay.

While hundreds of them are made the collector would walk through all of them again and again; and
if it merely paused, it would do so once, for as long as a tenth of the loading, as soon as it went
on. So what was made meanwhile is counted among the old objects, as if it had been looked at.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class Loading:
    """Use it as ``with Loading():``; a collector that is off stays off."""

    def __enter__(self) -> None:
        self._was_collecting = gc.isenabled()
        gc.disable()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._was_collecting:
            return
        # Whoever has frozen objects wants them to stay so.
        if hasattr(gc, "freeze") and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()

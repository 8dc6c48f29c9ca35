"""Loads modules without garbage collection, since modules are permanent.

While hundreds of modules are loaded the collector would traverse all of them again and again; and
if it merely paused, it would do so once when resumed, for as long as a tenth of the loading. So the
new objects are moved to the oldest generation, as if they had survived collections.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class Loading:
    """Context manager that pauses the collector; one that is off stays off."""

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
        # Objects frozen by the application must stay frozen.
        if hasattr(gc, "freeze") and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()

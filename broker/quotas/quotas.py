"""How long a caller has to wait for what its request cost (KIP-13, KIP-219)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestCaller


class Quotas:
    """Owned by the server; no caller has a limit."""

    def throttle_ms(self, caller: RequestCaller, size_bytes: int) -> int:
        """How long the caller must wait before its next request, in milliseconds."""
        return 0

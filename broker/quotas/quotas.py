"""How much each client may do, and how long it waits when it did more (KIP-13, 55, 219, 599).

Follows the quotas in the broker's metadata. ``is_active`` is false while no user and no client id
has a quota: then nothing else here is asked, and requests cost what they cost without quotas.
"""

from __future__ import annotations

import logging
from math import ceil
from typing import TYPE_CHECKING

from ottla.broker.quotas.client_limits import ClientBuckets, ClientLimits, Windows
from ottla.broker.quotas.connections import plain_host
from ottla.broker.quotas.mutations import Mutations
from ottla.broker.quotas.table import QuotaTable
from ottla.coordinator.store.entities import QUOTED_TYPES, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.quotas.client_limits import SharedBucket
    from ottla.coordinator.metadata.delta import MetadataDelta
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.quotas")


class Quotas:
    """Quotas of all clients. The server owns it; the dispatcher and the handlers call it."""

    def __init__(self, clock: Clock, windows: Windows | None = None) -> None:
        self._windows = windows or Windows()
        self.now_ms = clock.now_ms
        self.table = QuotaTable()
        self._buckets = ClientBuckets(self.table, self._windows)
        self.is_active = False
        # Whether a sender may act as a broker, whose requests are exempt.
        self.trusts: Callable[[RequestContext], bool] = lambda _context: True

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Apply quotas that were set, changed or removed."""
        changed = [entity for entity in delta.configs if entity.entity_type in QUOTED_TYPES]
        for entity in changed:
            values = delta.after.configs.get(entity, {})
            for kind in self.table.put(entity.entity_type, entity.name, values):
                logger.error("%s of %s %s is no number and does not count", kind, *entity)
        if changed:
            self._buckets.forget()
            self.is_active = self.table.limits_clients

    def limits_of(self, principal: str, client_id: str) -> ClientLimits | None:
        """The quotas of a client, None if it has none.

        Args: ``principal`` as of a request's context, its type in front (``User:alice``)."""
        return self._buckets.limits_of(principal.partition(":")[2], client_id, self.now_ms())

    def limits(self, principal: str, client_id: memoryview) -> bool:
        """Whether the client has any quota; its id is as on the wire. A client whose id is no text
        is to go the ordinary way, which refuses it: its user may have a quota."""
        try:
            text = str(client_id, "utf-8")
        except UnicodeDecodeError:
            return True
        return self.limits_of(principal, text) is not None

    def fetch_hold_ms(self, context: RequestContext) -> int:
        """How long a consumer is held before it gets any more bytes, in milliseconds.

        The caller sends an answer without records that contains only this throttle time."""
        bucket = self._consume(context)
        if bucket is None:
            return 0
        hold_ms = ceil(bucket.hold_ms(self.now_ms()))
        bucket.throttled_ms += hold_ms
        return hold_ms

    def fetch_bytes_max(self, context: RequestContext) -> int:
        """How many bytes one fetch may bring at most, but for a larger first batch: no more than
        may be used at once, so that the pace is even."""
        bucket = self._consume(context)
        if bucket is None:
            return 2**31 - 1
        return max(1, int(min(bucket.rate_per_s * self._windows.burst_s, 2**31 - 1)))

    def mutations(self, context: RequestContext, *, strict_from: int) -> Mutations:
        """The controller mutations of one request (KIP-599).

        Args: ``strict_from`` the first version in which mutations above the quota are refused;
        before that they are done, and the client is held."""
        bucket = None
        if self.is_active:
            limits = self.limits_of(context.principal, context.client_id)
            bucket = None if limits is None else limits.mutation
        return Mutations(bucket, self.now_ms, is_strict=context.api_version >= strict_from)

    def connection_rate(self, host: str) -> float | None:
        """Return the quota of new connections of the address per second, None without one."""
        if not self.table.limits_ips:
            return None
        return self.table.connection_rate(quoted(plain_host(host)))

    def in_use(self) -> Iterable[SharedBucket]:
        """Return every quota that a client has used, for metrics."""
        return self._buckets.in_use()

    def forgotten(self) -> Mapping[str, tuple[float, float]]:
        """By kind, use and held milliseconds of quotas that are not in use any more."""
        return self._buckets.forgotten

    def _consume(self, context: RequestContext) -> SharedBucket | None:
        limits = self.limits_of(context.principal, context.client_id)
        return None if limits is None else limits.consume

"""Blocking QuotaAdmin: ``client/administration/quotas.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.administration.quotas import QuotaAdmin as AsyncQuotaAdmin
    from ottla.client.administration.quotas import QuotaView
    from ottla.client.process.loop_thread import LoopThread


class QuotaAdmin(Face):
    """Administers quotas; ``Admin.quotas``."""

    def __init__(self, inner: AsyncQuotaAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def describe_quotas(
        self, entity: Mapping[str, str | None] | None = None, *, strict: bool = False
    ) -> list[QuotaView]:
        """List the quotas that are set, of all entities or of those that match.

        Args:
            entity: What an entity must have, by type: a name, or None for the default. Empty or
                None (default): all entities.
            strict: Leave out entities that have other types as well; False by default.

        Raises:
            ValueError: A type is unknown.
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.describe_quotas(entity, strict=strict))

    def alter_quotas(
        self,
        entity: Mapping[str, str | None],
        quotas: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set quotas of an entity, and remove those whose value is None.

        Args:
            entity: Its name by type: ``user``, ``client-id``, both, or ``ip``; None as a name
                means the default of that type.
            quotas: Values by Kafka's names: ``producer_byte_rate`` and ``consumer_byte_rate`` in
                bytes per second, ``request_percentage``, ``controller_mutation_rate`` in
                partitions per second, ``connection_creation_rate`` per second.
            validate_only: Only check the change; False by default.

        Raises:
            ValueError: A type is unknown.
            RequestRefused: The broker refused.
        """
        self._run(self._inner.alter_quotas(entity, quotas, validate_only=validate_only))

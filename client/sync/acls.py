"""Blocking AclAdmin: ``client/administration/acls.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.administration.acls import EVERY_RULE
from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.administration.acls import AclAdmin as AsyncAclAdmin
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.acls import AclFilter, AclRule
    from ottla.wire.errors import RequestRefused


class AclAdmin(Face):
    """Administers the cluster's access rules; ``Admin.acls``.

    The calls may be repeated: a rule that is there already is not added twice."""

    def __init__(self, inner: AsyncAclAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def describe_acls(self, wanted: AclFilter = EVERY_RULE) -> list[AclRule]:
        """List the rules that a filter selects.

        Args:
            wanted: What to list; every rule by default. With the pattern type MATCH, the rules that
                are in force for the resource of that name.

        Returns:
            The rules, sorted.

        Raises:
            RequestRefused: The broker refused; SECURITY_DISABLED if it has no authorizer.
        """
        return self._run(self._inner.describe_acls(wanted))

    def create_acls(self, rules: Iterable[AclRule]) -> dict[AclRule, RequestRefused | None]:
        """Add rules. Each of them is in force on all brokers within a second.

        Args:
            rules: The rules to add.

        Returns:
            The error of each rule; None for those that are in force.

        Raises:
            TransportError: No broker answered.
        """
        return self._run(self._inner.create_acls(rules))

    def delete_acls(self, filters: Iterable[AclFilter]) -> list[AclRule]:
        """Remove the rules that filters select.

        Args:
            filters: What to remove; a rule goes if one of them selects it.

        Returns:
            The rules that were removed, sorted.

        Raises:
            RequestRefused: The broker refused a filter, or could not remove a rule.
        """
        return self._run(self._inner.delete_acls(filters))

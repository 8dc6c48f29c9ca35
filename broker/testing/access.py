"""Users and access rules of a running cluster: created at its start, changed by faults."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.testing.cluster_node import is_own
from ottla.broker.testing.members import ClusterError
from ottla.protocol.acls import AclFilter
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.testing.cluster_node import AccessState
    from ottla.broker.testing.members import Members
    from ottla.broker.testing.security import ClusterSecurity
    from ottla.client.admin import Admin
    from ottla.protocol.acls import AclRule

ATTEMPTS_MAX = 500
ATTEMPT_PAUSE_S = 0.01


class Access:
    """Changes them as the super user; returns when all running brokers know.

    Args:
        members: The brokers.
        security: The cluster's; None without encryption and logins.
        open_admin: A client that is a super user, by addresses that no fault closes. Raises
            ClusterError.
        rules: The access rules at the start.
    """

    def __init__(
        self,
        members: Members,
        security: ClusterSecurity | None,
        open_admin: Callable[[], Admin],
        rules: Sequence[AclRule],
    ) -> None:
        self._members = members
        self._security = security
        self._open_admin = open_admin
        self._rules = tuple(rules)
        self._has_expired = False
        self._first_passwords = {} if security is None else dict(security.passwords)
        self._users = [name for name in self._first_passwords if not is_own(name)]

    # ---- certificates ----

    async def expire_certificates(self, node_ids: Sequence[int]) -> None:
        """Let those brokers show clients an expired certificate. Raises ClusterError."""
        for node_id in node_ids:
            self._members.member(node_id)
            self._secured("certificates").expire_broker(node_id)
            self._has_expired = True
        await self._reload()

    async def expire_client_certificate(self) -> None:
        """Put an expired certificate into the clients' files. Raises ClusterError."""
        self._secured("certificates").expire_client()
        self._has_expired = True

    async def renew_certificates(self) -> None:
        """Replace all certificates by valid ones. Raises ClusterError."""
        self._secured("certificates").renew(tuple(self._members.members))
        self._has_expired = False
        await self._reload()

    async def _reload(self) -> None:
        for node in self._members.running.values():
            await node.reload_certificates()

    # ---- users ----

    async def delete_user(self, user: str) -> None:
        """Delete the user's credentials. Raises ClusterError, RequestRefused."""
        self._known(user)
        async with self._admin() as admin:
            await admin.users.delete_user(user)
        await self._until(lambda state: not state.credentials, user)

    async def set_password(self, user: str, password: str) -> None:
        """Set the password of a user of the cluster. Raises ClusterError, RequestRefused."""
        security = self._known(user)
        if not password:
            raise ClusterError("a password cannot be empty")
        before = [one.credentials for one in await self._states(user)]
        async with self._admin() as admin:
            for mechanism in SCRAM_MECHANISMS:
                await admin.users.set_password(user, password, mechanism)
        security.passwords[user] = password
        # Salts are drawn again, so all texts change.
        old = {text for credentials in before for text in credentials}
        await self._until(
            lambda state: (
                len(state.credentials) == len(SCRAM_MECHANISMS) and not old & set(state.credentials)
            ),
            user,
        )

    # ---- rules ----

    async def add_rules(self, rules: Sequence[AclRule]) -> None:
        """Add access rules. Raises ClusterError for one that the brokers refuse."""
        if not rules:
            return
        async with self._admin() as admin:
            results = await admin.acls.create_acls(rules)
        for rule, error in results.items():
            if error is not None:
                raise ClusterError(f"{rule} is refused: {error}")
        wanted = set(rules)
        await self._until(lambda state: wanted <= state.rules)

    async def remove_rules(self, principal: str | None) -> None:
        """Remove the rules about a principal, or all. Raises ClusterError, RequestRefused."""
        async with self._admin() as admin:
            removed = set(await admin.acls.delete_acls([AclFilter(principal=principal)]))
        if not removed:
            raise ClusterError(f"there is no access rule about {principal or 'any user'}")
        await self._until(lambda state: not removed & state.rules)

    async def restore(self) -> None:
        """Restore users, passwords and rules as they were at the start."""
        security = self._security
        if security is None or not security.has_logins:
            return
        for user in self._users:
            password = self._first_passwords[user]
            states = await self._states(user)
            if security.passwords[user] != password or not all(one.credentials for one in states):
                await self.set_password(user, password)
        present = frozenset.intersection(*(one.rules for one in await self._states(None)))
        await self.add_rules([one for one in self._rules if one not in present])

    async def clear(self) -> None:
        """Restore everything as it was at the start."""
        if self._has_expired:
            await self.renew_certificates()
        await self.restore()

    # ---- inside ----

    def _admin(self) -> Admin:
        self._secured("users")
        return self._open_admin()

    def _secured(self, what: str) -> ClusterSecurity:
        if self._security is None:
            raise ClusterError(f"the cluster has no {what}: give it security='sasl_ssl'")
        return self._security

    def _known(self, user: str) -> ClusterSecurity:
        security = self._secured("users")
        if is_own(user):
            raise ClusterError(f"the cluster itself needs its user {user!r}")
        # Raises if there is no such user.
        security.of_client("ottla", "", user)
        return security

    async def _states(self, user: str | None) -> list[AccessState]:
        nodes = self._members.running.values()
        return list(await asyncio.gather(*(node.access_state(user) for node in nodes)))

    async def _until(
        self, is_known: Callable[[AccessState], bool], user: str | None = None
    ) -> None:
        for _ in range(ATTEMPTS_MAX):
            if all(map(is_known, await self._states(user))):
                return
            await asyncio.sleep(ATTEMPT_PAUSE_S)
        raise ClusterError("the brokers did not learn of the change in time")

"""Faults of users, access rules and certificates: they remove a client's access."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ottla.broker.testing.access import Access
    from ottla.broker.testing.members import Members

Do: TypeAlias = Callable[[str, Callable[[], Coroutine[object, object, None]]], None]


class AccessFaults:
    """Removes access, in a cluster that has ``security``.

    Each call returns when all running brokers know."""

    def __init__(self, members: Members, access: Access, do: Do) -> None:
        self._members = members
        self._access = access
        self._do = do

    def expire_certificate(self, broker: int | None = None) -> None:
        """Let the broker show its clients a certificate that has expired.

        Existing connections stay open; the brokers reach each other with another certificate.

        Args:
            broker: The broker's id; None (default) for all brokers.
        """
        node_ids = [*self._members.members] if broker is None else [broker]
        self._do(
            f"expire_certificate({broker or ''})",
            lambda: self._access.expire_certificates(node_ids),
        )

    def expire_client_certificate(self) -> None:
        """Let the certificate in the clients' files expire, with ``security="mtls"``."""
        self._do("expire_client_certificate()", self._access.expire_client_certificate)

    def renew_certificates(self) -> None:
        """Put valid certificates for brokers and clients into the same files."""
        self._do("renew_certificates()", self._access.renew_certificates)

    def delete_user(self, user: str) -> None:
        """Delete a user: its sessions end within a second, and it cannot log in.

        Args:
            user: The user's name.
        """
        self._do(f"delete_user({user!r})", lambda: self._access.delete_user(user))

    def change_password(self, user: str, password: str) -> None:
        """Change a password: sessions of the user end, and clients need new settings.

        Args:
            user: The user's name; one that was deleted is there again.
            password: The new password.
        """
        self._do(
            f"change_password({user!r}, ...)", lambda: self._access.set_password(user, password)
        )

    def remove_acls(self, user: str | None = None) -> None:
        """Remove access rules from all brokers.

        Args:
            user: Those about this user; None (default) for all rules.
        """
        principal = None if user is None else f"User:{user}"
        self._do(f"remove_acls({user or ''})", lambda: self._access.remove_rules(principal))

    def restore_access(self) -> None:
        """Restore the users, passwords and access rules that the cluster had at its start."""
        self._do("restore_access()", self._access.restore)

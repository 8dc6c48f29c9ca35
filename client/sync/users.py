"""Blocking UserAdmin: ``client/administration/users.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.administration.users import DEFAULT_MECHANISM
from ottla.client.sync.face import Face
from ottla.protocol.sasl.scram_record import ITERATIONS_MIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.administration.users import UserAdmin as AsyncUserAdmin
    from ottla.client.administration.users import UserView
    from ottla.client.process.loop_thread import LoopThread


class UserAdmin(Face):
    """Administers users; ``Admin.users``."""

    def __init__(self, inner: AsyncUserAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def describe_users(self, names: Sequence[str] = ()) -> list[UserView]:
        """List users with their mechanisms; passwords cannot be read.

        Args:
            names: The users; all by default. Those that do not exist are left out.

        Raises:
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.describe_users(names))

    def set_password(
        self,
        name: str,
        password: str,
        mechanism: str = DEFAULT_MECHANISM,
        iterations: int = ITERATIONS_MIN,
    ) -> None:
        """Create a user, or change its password. Open sessions of the user end.

        Args:
            name: The user.
            password: The new password; the broker gets a salted hash of it.
            mechanism: ``SCRAM-SHA-512`` (default) or ``SCRAM-SHA-256``.
            iterations: How often the password is hashed, 4096 (default) to 16384.

        Raises:
            ValueError: The mechanism is unknown or the password is empty.
            RequestRefused: The broker refused.
        """
        self._run(self._inner.set_password(name, password, mechanism, iterations))

    def delete_user(self, name: str, mechanism: str | None = None) -> None:
        """Delete a user's credentials. Open sessions of the user end; its quotas stay.

        Args:
            name: The user.
            mechanism: Delete the credential of this one only; of all by default.

        Raises:
            ValueError: The mechanism is unknown.
            RequestRefused: There is no such user, or the broker refused.
        """
        self._run(self._inner.delete_user(name, mechanism))

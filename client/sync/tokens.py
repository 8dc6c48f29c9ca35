"""Blocking TokenAdmin: ``client/administration/tokens.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.administration.tokens import DelegationToken
    from ottla.client.administration.tokens import TokenAdmin as AsyncTokenAdmin
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.secret import Secret


class TokenAdmin(Face):
    """Administers delegation tokens; ``Admin.tokens``.

    The client must have authenticated, and not with a token itself."""

    def __init__(self, inner: AsyncTokenAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def create_token(
        self,
        renewers: Sequence[str] = (),
        max_lifetime_ms: int | None = None,
        owner: str | None = None,
    ) -> DelegationToken:
        """Create a token. It is valid on all brokers within a second.

        Args:
            renewers: Principals that may renew and expire it besides its owner, ``User:NAME``.
            max_lifetime_ms: How long it lives at most; by default, and at most, as long as the
                brokers' ``delegation.token.max.lifetime.ms``.
            owner: Whose token it is, ``User:NAME``; by default the caller's. For others the caller
                needs CreateTokens on that user.

        Returns:
            The token with its secret.

        Raises:
            ValueError: A principal is not of the form ``User:NAME``.
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.create_token(renewers, max_lifetime_ms, owner))

    def renew_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Let a token live for longer, up to its maximum. Its owner and its renewers may.

        Args:
            hmac: The token's secret, base64.
            period_ms: From now on; by default the brokers' ``delegation.token.expiry.time.ms``.

        Returns:
            When it expires now, milliseconds since 1970.

        Raises:
            ValueError: The secret is not base64.
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.renew_token(hmac, period_ms))

    def expire_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Let a token end. Its owner and its renewers may. Sessions that rest on it end with it.

        Args:
            hmac: The token's secret, base64.
            period_ms: From now on; at once by default.

        Returns:
            When it expires now, milliseconds since 1970.

        Raises:
            ValueError: The secret is not base64.
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.expire_token(hmac, period_ms))

    def describe_tokens(self, owners: Sequence[str] | None = None) -> list[DelegationToken]:
        """List the tokens that the caller may see: its own, those that it may renew, and those
        that it has Describe on, or DescribeTokens on their owners.

        Args:
            owners: Only tokens of these principals, or that these may renew; all by default.

        Returns:
            The tokens with their secrets, the oldest first.

        Raises:
            ValueError: A principal is not of the form ``User:NAME``.
            RequestRefused: The broker refused.
        """
        return self._run(self._inner.describe_tokens(owners))

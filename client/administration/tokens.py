"""Creates, renews, expires and lists delegation tokens (KIP-48, KIP-373)."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages import create_delegation_token as creating
from ottla.protocol.messages import describe_delegation_token as describing
from ottla.protocol.messages import expire_delegation_token as expiring
from ottla.protocol.messages import renew_delegation_token as renewing
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

_CREATE = declare(
    ApiKey.CREATE_DELEGATION_TOKEN,
    creating.CreateDelegationTokenRequest,
    creating.CreateDelegationTokenResponse,
    1,
)
_RENEW = declare(
    ApiKey.RENEW_DELEGATION_TOKEN,
    renewing.RenewDelegationTokenRequest,
    renewing.RenewDelegationTokenResponse,
    1,
)
_EXPIRE = declare(
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    expiring.ExpireDelegationTokenRequest,
    expiring.ExpireDelegationTokenResponse,
    1,
)
_DESCRIBE = declare(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    describing.DescribeDelegationTokenRequest,
    describing.DescribeDelegationTokenResponse,
    1,
)
_USUAL = -1
_AT_ONCE = -1


class DelegationToken(NamedTuple):
    """A token that a client can log in with in place of a password.

    Attributes:
        token_id: The user of the login.
        hmac: The password of the login, base64; ``reveal()`` returns it.
        owner: The principal of who logs in, such as ``User:alice``.
        requester: Who has created it; empty from brokers before Kafka 3.3.
        renewers: Who may renew and expire it, besides the owner.
        issue_ms: When it was created, milliseconds since 1970.
        expiry_ms: When it expires unless it is renewed.
        max_ms: When it expires however often it is renewed.
    """

    token_id: str
    hmac: Secret
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def login_settings(self, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
        """The settings of a client that logs in with the token.

        Args:
            mechanism: ``SCRAM-SHA-256`` (default) or ``SCRAM-SHA-512``; the brokers must have
                enabled it.

        Returns:
            ``sasl.mechanism`` and ``sasl.jaas.config``, as Java's clients take them, and
            ``sasl.username``, ``sasl.password`` and ``sasl.tokenauth``, which override those of
            the settings that they are added to. They contain the secret.

        Raises:
            ValueError: The mechanism is unknown.
        """
        if mechanism not in SCRAM_MECHANISMS:
            raise ValueError(f"mechanism is {' or '.join(SCRAM_MECHANISMS)}, not {mechanism!r}")
        secret = self.hmac.reveal()
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required "
                f'username="{self.token_id}" password="{secret}" tokenauth="true";'
            ),
            "sasl.username": self.token_id,
            "sasl.password": secret,
            "sasl.tokenauth": "true",
        }


class TokenAdmin:
    """Administers delegation tokens; ``Admin.tokens``.

    The client must have authenticated, and not with a token itself."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def create_token(
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
        lifetime_ms = _USUAL if max_lifetime_ms is None else max_lifetime_ms
        request = creating.CreateDelegationTokenRequest(
            renewers=[creating.CreatableRenewers(*_split(one)) for one in renewers],
            max_lifetime_ms=lifetime_ms,
        )
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = _split(owner)
        response = await self._router.to_any(_CREATE, request, check_created)
        return DelegationToken(
            response.token_id,
            _secret(response.hmac),
            f"{response.principal_type}:{response.principal_name}",
            _principal(
                response.token_requester_principal_type, response.token_requester_principal_name
            ),
            tuple(renewers),
            response.issue_timestamp_ms,
            response.expiry_timestamp_ms,
            response.max_timestamp_ms,
        )

    async def renew_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
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
        period_ms = _USUAL if period_ms is None else period_ms
        request = renewing.RenewDelegationTokenRequest(_bytes(hmac), period_ms)
        response = await self._router.to_any(_RENEW, request, check_renewed)
        return response.expiry_timestamp_ms

    async def expire_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
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
        period_ms = _AT_ONCE if period_ms is None else period_ms
        request = expiring.ExpireDelegationTokenRequest(_bytes(hmac), period_ms)
        response = await self._router.to_any(_EXPIRE, request, check_expired)
        return response.expiry_timestamp_ms

    async def describe_tokens(self, owners: Sequence[str] | None = None) -> list[DelegationToken]:
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
        wanted = None
        if owners is not None:
            wanted = [describing.DescribeDelegationTokenOwner(*_split(one)) for one in owners]
        request = describing.DescribeDelegationTokenRequest(wanted)
        response = await self._router.to_any(_DESCRIBE, request, check_described)
        found = [_described(one) for one in response.tokens]
        return sorted(found, key=lambda token: (token.issue_ms, token.token_id))


def _described(one: describing.DescribedDelegationToken) -> DelegationToken:
    return DelegationToken(
        one.token_id,
        _secret(one.hmac),
        f"{one.principal_type}:{one.principal_name}",
        _principal(one.token_requester_principal_type, one.token_requester_principal_name),
        tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in one.renewers),
        one.issue_timestamp,
        one.expiry_timestamp,
        one.max_timestamp,
    )


def _split(principal: str) -> tuple[str, str]:
    kind, separator, name = principal.partition(":")
    if not (kind and separator and name):
        raise ValueError(f"{principal!r} is not of the form User:NAME")
    return kind, name


def _principal(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind else ""


def _secret(hmac: bytes) -> Secret:
    return Secret(base64.b64encode(hmac).decode())


def _bytes(hmac: Secret | str) -> bytes:
    text = hmac.reveal() if isinstance(hmac, Secret) else hmac
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the HMAC of a delegation token is base64") from None


def check_created(response: creating.CreateDelegationTokenResponse, connection: Connection) -> None:
    """Raise RequestRefused if the response has an error."""
    _check(response.error_code, connection)


def check_renewed(response: renewing.RenewDelegationTokenResponse, connection: Connection) -> None:
    """Raise RequestRefused if the response has an error."""
    _check(response.error_code, connection)


def check_expired(response: expiring.ExpireDelegationTokenResponse, connection: Connection) -> None:
    """Raise RequestRefused if the response has an error."""
    _check(response.error_code, connection)


def check_described(
    response: describing.DescribeDelegationTokenResponse, connection: Connection
) -> None:
    """Raise RequestRefused if the response has an error."""
    _check(response.error_code, connection)


def _check(number: int, connection: Connection) -> None:
    code = error_code(number)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, _HINTS.get(code), broker=str(connection.address))


_HINTS = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "The brokers have no delegation tokens: set delegation.token.secret.key on all of them"
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "Log in with a password or a certificate: tokens are administered neither without "
        "authentication nor with a token"
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "A token for another user needs CreateTokens on that user"
    ),
}

"""Lists, creates and deletes users that log in with SCRAM (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages import alter_user_scram_credentials as altering
from ottla.protocol.messages import describe_user_scram_credentials as describing
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.scram_record import (
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_BY_NUMBER,
    SCRAM_MECHANISMS,
    salted_password,
)
from ottla.protocol.secret import Secret
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused
from ottla.wire.real import RealRandom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.cluster.routing import Router
    from ottla.protocol.sasl.scram_record import ScramMechanism
    from ottla.wire.connection import Connection

_DESCRIBE = declare(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    describing.DescribeUserScramCredentialsRequest,
    describing.DescribeUserScramCredentialsResponse,
    0,
)
_ALTER = declare(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    altering.AlterUserScramCredentialsRequest,
    altering.AlterUserScramCredentialsResponse,
    0,
)
DEFAULT_MECHANISM = "SCRAM-SHA-512"


class UserView(NamedTuple):
    """A user that can log in with SCRAM.

    Attributes:
        name: The user.
        mechanisms: The iterations by mechanism.
    """

    name: str
    mechanisms: dict[str, int]


class UserAdmin:
    """Administers users; ``Admin.users``."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_users(self, names: Sequence[str] = ()) -> list[UserView]:
        """List users with their mechanisms; passwords cannot be read.

        Args:
            names: The users; all by default. Those that do not exist are left out.

        Raises:
            RequestRefused: The broker refused.
        """
        wanted = [describing.UserName(name) for name in names]
        request = describing.DescribeUserScramCredentialsRequest(wanted or None)
        response = await self._router.to_any(_DESCRIBE, request, check_described)
        return [
            UserView(
                one.user,
                {
                    SCRAM_BY_NUMBER[found.mechanism].name: found.iterations
                    for found in one.credential_infos
                    if found.mechanism in SCRAM_BY_NUMBER
                },
            )
            for one in response.results
            if one.error_code == ErrorCode.NONE
        ]

    async def set_password(
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
        known = _known(mechanism)
        if not password:
            raise ValueError("a password cannot be empty")
        salt = RealRandom().token(SALT_BYTES)
        salted = salted_password(known.algorithm, Secret(password), salt, iterations)
        upsertion = altering.ScramCredentialUpsertion(name, known.number, iterations, salt, salted)
        await self._alter(altering.AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def delete_user(self, name: str, mechanism: str | None = None) -> None:
        """Delete a user's credentials. Open sessions of the user end; its quotas stay.

        Args:
            name: The user.
            mechanism: Delete the credential of this one only; of all by default.

        Raises:
            ValueError: The mechanism is unknown.
            RequestRefused: There is no such user, or the broker refused.
        """
        mechanisms = [_known(mechanism)] if mechanism else await self._mechanisms_of(name)
        for one in mechanisms:
            deletion = altering.ScramCredentialDeletion(name, one.number)
            await self._alter(altering.AlterUserScramCredentialsRequest(deletions=[deletion]))

    async def _mechanisms_of(self, name: str) -> list[ScramMechanism]:
        views = await self.describe_users([name])
        if not views:
            raise RequestRefused(ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name!r}")
        return [SCRAM_MECHANISMS[one] for one in views[0].mechanisms]

    async def _alter(self, request: altering.AlterUserScramCredentialsRequest) -> None:
        await self._router.to_any(_ALTER, request, check_altered)


def _known(mechanism: str) -> ScramMechanism:
    found = SCRAM_MECHANISMS.get(mechanism)
    if found is None:
        raise ValueError(f"mechanism is {' or '.join(SCRAM_MECHANISMS)}, not {mechanism!r}")
    return found


def check_described(
    response: describing.DescribeUserScramCredentialsResponse, connection: Connection
) -> None:
    """Raises RequestRefused."""
    if response.error_code != ErrorCode.NONE:
        code = error_code(response.error_code)
        raise RequestRefused(code, response.error_message, broker=str(connection.address))


def check_altered(
    response: altering.AlterUserScramCredentialsResponse, connection: Connection
) -> None:
    """Raises RequestRefused."""
    for one in response.results:
        if one.error_code != ErrorCode.NONE:
            code = error_code(one.error_code)
            raise RequestRefused(code, one.error_message, broker=str(connection.address))

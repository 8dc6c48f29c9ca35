"""What a broker without an authorizer and without SASL answers to requests about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api.table import TABLE
from ottla.broker.authorization.authorizer import Authorizer
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestCaller
    from tests.support.raw_client import RawClient

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
ANY = 1
RULE = AclCreation(2, "t", 3, "User:me", "*", 3, 3)
FILTER = DeleteAclsFilter(2, "t", 3, None, None, ANY, ANY)
DESCRIBED = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
LITERAL = DescribeAclsRequest(ANY, operation=ANY, permission_type=ANY)


def served(*keys: ApiKey) -> list[tuple[ApiKey, int]]:
    """Each version that is answered."""
    return [(key, version) for key in keys for version in range(TABLE[key].max_version + 1)]


def acl_request(key: ApiKey, version: int) -> Any:
    """A request with two items, where it has items; version 0 has literal patterns only."""
    if key is ApiKey.DESCRIBE_ACLS:
        return (
            DESCRIBED if version else DescribeAclsRequest(ANY, operation=ANY, permission_type=ANY)
        )
    if key is ApiKey.CREATE_ACLS:
        return CreateAclsRequest([RULE, RULE])
    return DeleteAclsRequest([FILTER, FILTER])


def errors(answer: Any) -> list[tuple[int, str]]:
    """The errors of the answer, or of its items."""
    items = getattr(answer, "results", None) or getattr(answer, "filter_results", None) or [answer]
    return [(item.error_code, item.error_message) for item in items]


@pytest.mark.parametrize(
    ("key", "version"),
    served(ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
)
async def test_every_call_about_acls_says_that_security_is_disabled(
    client: RawClient, key: ApiKey, version: int
) -> None:
    """Each item has the error: AdminClient completes one future per item."""
    answer = await client.call(version, acl_request(key, version))

    said = (ErrorCode.SECURITY_DISABLED, ErrorCode.SECURITY_DISABLED.text)
    assert errors(answer) == [said] * (1 if key is ApiKey.DESCRIBE_ACLS else 2)


class Closed(Authorizer):
    """Lets callers look at the cluster and change nothing, or not even look."""

    def __init__(self, *allowed: Operation) -> None:
        self._allowed = allowed

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        return resource is not AclResourceType.CLUSTER or operation in self._allowed


@pytest.mark.parametrize("may_look", [True, False])
async def test_the_authorizer_is_asked_before_anything_is_told_about_acls(
    may_look: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at them is DESCRIBE of the cluster, changing them is ALTER."""
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    allowed = [Operation.DESCRIBE] if may_look else []
    monkeypatch.setattr("ottla.broker.authorization.setup.Authorizer", lambda: Closed(*allowed))
    async with running_broker() as running, running.connect() as client:
        described = await client.call(3, DESCRIBED)
        created = await client.call(3, CreateAclsRequest([RULE]))
        deleted = await client.call(3, DeleteAclsRequest([FILTER]))

    assert described.error_code == (ErrorCode.SECURITY_DISABLED if may_look else refused)
    assert (created.results[0].error_code, deleted.filter_results[0].error_code) == (refused,) * 2


@pytest.mark.parametrize("version", [0, 1])
async def test_a_handshake_on_a_plaintext_listener_is_out_of_place(
    client: RawClient, version: int
) -> None:
    """The connection stays usable: the next frame is not taken for a token."""
    answer = await client.call(version, SaslHandshakeRequest("PLAIN"))
    again = await client.call(version, SaslHandshakeRequest("PLAIN"))

    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert again == answer


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_authentication_on_a_plaintext_listener_is_out_of_place(
    client: RawClient, version: int
) -> None:
    """With a sentence for the person who configured the client."""
    answer = await client.call(version, SaslAuthenticateRequest(b"\0me\0secret"))

    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.ILLEGAL_SASL_STATE, b"")
    assert "does not use SASL" in answer.error_message


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_delegation_token_is_not_made_for_anonymous_users(
    client: RawClient, version: int
) -> None:
    """The answer names the owner; from version 3 on also who has asked."""
    mine = await client.call(version, CreateDelegationTokenRequest(max_lifetime_ms=-1))
    assert (mine.error_code, mine.token_id, mine.hmac) == (NOT_ALLOWED, "", b"")
    assert (mine.principal_type, mine.principal_name) == ("User", "ANONYMOUS")
    assert {mine.issue_timestamp_ms, mine.expiry_timestamp_ms, mine.max_timestamp_ms} == {-1}
    if version >= 3:
        asked = CreateDelegationTokenRequest("User", "owner", max_lifetime_ms=-1)
        other = await client.call(version, asked)
        assert (other.principal_type, other.principal_name) == ("User", "owner")
        assert other.token_requester_principal_name == "ANONYMOUS"


@pytest.mark.parametrize(
    ("key", "version"),
    served(
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ),
)
async def test_no_delegation_token_is_known(client: RawClient, key: ApiKey, version: int) -> None:
    """Neither renewed, nor ended, nor listed."""
    request = {
        ApiKey.RENEW_DELEGATION_TOKEN: RenewDelegationTokenRequest(b"x", 1),
        ApiKey.EXPIRE_DELEGATION_TOKEN: ExpireDelegationTokenRequest(b"x", 1),
        ApiKey.DESCRIBE_DELEGATION_TOKEN: DescribeDelegationTokenRequest(None),
    }[key]
    answer = await client.call(version, request)

    assert answer.error_code == NOT_ALLOWED
    assert getattr(answer, "expiry_timestamp_ms", -1) == -1
    assert getattr(answer, "tokens", []) == []

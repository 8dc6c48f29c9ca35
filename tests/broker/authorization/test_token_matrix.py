"""The APIs of delegation tokens for callers with all sets of rules, in each of their versions.

Their callers have to log in, so they are not in the matrix of the other APIs. Situations, evaluator
and the comparison with the declared rights are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.api.rights import RIGHTS
from ottla.broker.api.table import TABLE
from ottla.broker.authorization.index import AclIndex
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.broker.authorization.cases import OF_TOKENS
from tests.broker.authorization.naive import naively_decided
from tests.broker.authorization.test_matrix import HERE, ME, Rules, Scene, situations_of
from tests.broker.support.token_broker import log_in, token_settings
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.broker.authorization.case import Need
    from tests.support.raw_client import RawClient

ALICE, BOB = "User:alice", "User:bob"
MAKE: Need = (Operation.CREATE_TOKENS, AclResourceType.USER, BOB)
SEE_USERS: Need = (Operation.DESCRIBE_TOKENS, AclResourceType.USER, BOB)
OTHERS = CreateDelegationTokenRequest("User", "bob", [], -1)
OWN = CreateDelegationTokenRequest(max_lifetime_ms=-1)
RIGHT_NEEDED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


@pytest.fixture
async def scene() -> AsyncIterator[tuple[Scene, RawClient]]:
    """Alice, whose rules are under test, and bob."""
    settings = token_settings(authorizer_class_name="ottla.acl")
    async with (
        running_broker(settings) as running,
        running.connect() as alice,
        running.connect() as bob,
    ):
        for client, user in ((alice, "alice"), (bob, "bob")):
            await log_in(client, user)
        yield Scene(running, alice), bob


def situations(*needs: Need) -> Iterator[tuple[str, Rules]]:
    """Those of the matrix, about alice."""
    for name, rules in situations_of(needs):
        yield name, [one._replace(principal=one.principal.replace(ME, ALICE)) for one in rules]


def may(rules: Rules, need: Need) -> bool:
    operation, kind, name = need
    caller = (ALICE, HERE)
    return naively_decided(rules, (), caller, operation, (kind, name), is_open=False)


def tokens_of(scene: Scene) -> set[str]:
    """The tokens that there are."""
    store = scene.broker.parts.tokens
    assert store is not None
    return {one.token_id for one in store.tokens.all()}


async def test_a_token_for_another_is_made_with_create_tokens_alone(
    scene: tuple[Scene, RawClient],
) -> None:
    """A refusal leaves no token behind."""
    found, _bob = scene
    for name, rules in situations(MAKE):
        found.authorizer.take(AclIndex.of(dict.fromkeys(rules)))
        before = tokens_of(found)
        answer = await found.client.call(3, OTHERS)
        expected = ErrorCode.NONE if may(rules, MAKE) else RIGHT_NEEDED
        assert answer.error_code == expected, name
        assert (tokens_of(found) == before) is (expected == RIGHT_NEEDED), name
    assert found.asked == set(RIGHTS[ApiKey.CREATE_DELEGATION_TOKEN])
    found.authorizer._super_users = frozenset({ALICE})
    assert (await found.client.call(3, OTHERS)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_what_belongs_to_the_caller_needs_no_right(
    scene: tuple[Scene, RawClient], version: int
) -> None:
    """And no rule takes it away, as in Kafka; no rule gives the tokens of others either."""
    found, bob = scene
    older = min(version, 2)
    theirs = (await bob.call(version, OWN)).hmac
    for name, rules in situations(MAKE, SEE_USERS):
        found.authorizer.take(AclIndex.of(dict.fromkeys(rules)))
        mine = await found.client.call(version, OWN)
        assert mine.error_code == ErrorCode.NONE, name
        for token_hmac, expected in (
            (mine.hmac, ErrorCode.NONE),
            (theirs, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        ):
            for request in (
                RenewDelegationTokenRequest(token_hmac, -1),
                ExpireDelegationTokenRequest(token_hmac, -1),
            ):
                answer = await found.client.call(older, request)
                assert answer.error_code == expected, name
    assert RIGHTS[ApiKey.RENEW_DELEGATION_TOKEN] == RIGHTS[ApiKey.EXPIRE_DELEGATION_TOKEN] == ()


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_tokens_of_another_are_listed_with_either_right(
    scene: tuple[Scene, RawClient], version: int
) -> None:
    """One's own always, and in silence: what is left out is no refusal."""
    found, bob = scene
    token = (await bob.call(version, OWN)).token_id
    see: Need = (Operation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token)
    for name, rules in situations(see, SEE_USERS):
        found.authorizer.take(AclIndex.of(dict.fromkeys(rules)))
        answer: Any = await found.client.call(version, DescribeDelegationTokenRequest(None))
        expected = {token} if may(rules, see) or may(rules, SEE_USERS) else set()
        assert answer.error_code == ErrorCode.NONE
        assert {one.token_id for one in answer.tokens} == expected, name
    assert found.asked == set(RIGHTS[ApiKey.DESCRIBE_DELEGATION_TOKEN])


def test_these_are_all_apis_of_tokens() -> None:
    """In all versions that are served."""
    assert {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    } == OF_TOKENS
    assert {TABLE[key].max_version for key in OF_TOKENS} == {2, 3}

"""The four APIs of delegation tokens, each version, for those that may and those that may not."""

from __future__ import annotations

import base64
import hmac
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.cluster.config_requests import ResourceType
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_SHA_256
from ottla.protocol.secret import Secret
from tests.broker.support.token_broker import (
    SECRET,
    DatedClock,
    admin_with,
    by_password,
    log_in,
    token_settings,
)
from tests.support.sasl_broker import running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

DAY_MS = 86_400_000
NEVER = -1
NO_TOKEN = b"\1" * 64


@asynccontextmanager
async def a_broker(**more: str) -> AsyncIterator[tuple[RunningBroker, DatedClock]]:
    """With rules: only what is allowed."""
    clock = DatedClock()
    settings = token_settings(authorizer_class_name="ottla.acl", super_users="User:bob", **more)
    async with running_broker(settings, clock=clock) as running:
        yield running, clock


async def log_in_by_token(client: RawClient, token_id: str, token_hmac: bytes) -> None:
    password = Secret(base64.b64encode(token_hmac).decode())
    scram = ScramClient(SCRAM_SHA_256, token_id, password, "n" * 24, is_token=True)
    assert (await client.call(1, SaslHandshakeRequest("SCRAM-SHA-256"))).error_code == 0
    answer = await client.call(2, SaslAuthenticateRequest(scram.first()))
    proof = scram.next(answer.auth_bytes)
    assert proof is not None
    assert (await client.call(2, SaslAuthenticateRequest(proof))).error_code == ErrorCode.NONE


def creation(*renewers: str, lifetime_ms: int = NEVER, owner: str = "") -> Any:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers("User", one) for one in renewers], max_lifetime_ms=lifetime_ms
    )
    if owner:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    return request


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_a_token_is_created_renewed_listed_and_expired(version: int) -> None:
    """Times are those of the broker's settings; the HMAC is Kafka's."""
    older = min(version, 2)
    async with a_broker() as (running, clock), running.connect() as client:
        await log_in(client, "alice")
        made = await client.call(version, creation("bob"))
        assert made.error_code == ErrorCode.NONE
        assert made.hmac == hmac.digest(SECRET.encode(), made.token_id.encode(), "sha512")
        now = clock.date_ms
        assert (made.issue_timestamp_ms, made.expiry_timestamp_ms) == (now, now + DAY_MS)
        assert made.max_timestamp_ms == now + 7 * DAY_MS
        assert (made.principal_type, made.principal_name) == ("User", "alice")

        clock.date_ms += 1000
        renewed = await client.call(older, RenewDelegationTokenRequest(made.hmac, 5_000))
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now + 6_000)
        renewed = await client.call(older, RenewDelegationTokenRequest(made.hmac, -1))
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, now + 1000 + DAY_MS)

        listed = await client.call(version, DescribeDelegationTokenRequest(None))
        (one,) = listed.tokens
        assert (one.principal_type, one.principal_name) == ("User", "alice")
        assert (one.token_id, one.hmac) == (made.token_id, made.hmac)
        assert (one.issue_timestamp, one.max_timestamp) == (now, now + 7 * DAY_MS)
        assert one.expiry_timestamp == now + 1000 + DAY_MS
        assert [(r.principal_type, r.principal_name) for r in one.renewers] == [("User", "bob")]
        requester = (one.token_requester_principal_type, one.token_requester_principal_name)
        assert requester == (("User", "alice") if version >= 3 else ("", ""))

        ended = await client.call(older, ExpireDelegationTokenRequest(made.hmac, 500))
        assert (ended.error_code, ended.expiry_timestamp_ms) == (0, now + 1500)
        ended = await client.call(older, ExpireDelegationTokenRequest(made.hmac, -1))
        assert (ended.error_code, ended.expiry_timestamp_ms) == (0, now + 1000)
        assert not (await client.call(version, DescribeDelegationTokenRequest(None))).tokens
        for request in (
            RenewDelegationTokenRequest(made.hmac, -1),
            ExpireDelegationTokenRequest(made.hmac, -1),
        ):
            gone = await client.call(older, request)
            assert gone.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            assert gone.expiry_timestamp_ms == -1


async def test_only_owner_and_renewers_renew_and_expire() -> None:
    """Others, who may even have read the HMAC, do not."""
    async with a_broker() as (running, clock), running.connect() as alice, running.connect() as bob:
        await log_in(alice, "alice")
        await log_in(bob, "bob")
        shared = await alice.call(3, creation("bob"))
        own = await alice.call(3, creation())
        for token, expected in (
            (shared, ErrorCode.NONE),
            (own, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        ):
            for request in (
                RenewDelegationTokenRequest(token.hmac, -1),
                ExpireDelegationTokenRequest(token.hmac, 60_000),
            ):
                assert (await bob.call(2, request)).error_code == expected
        clock.date_ms += 60_001
        for request in (
            RenewDelegationTokenRequest(shared.hmac, -1),
            ExpireDelegationTokenRequest(shared.hmac, 1),
        ):
            late = await bob.call(2, request)
            assert late.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        for unknown in (NO_TOKEN, b"", own.hmac[:-1], bytes(5_000)):
            answer = await alice.call(2, RenewDelegationTokenRequest(unknown, -1))
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_renewers_must_be_users() -> None:
    """No login is that of another kind of principal."""
    async with a_broker() as (running, _clock), running.connect() as client:
        await log_in(client, "alice")
        request = creation()
        request.renewers = [CreatableRenewers("User", "bob"), CreatableRenewers("Group", "g")]
        answer = await client.call(3, request)
        assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert (answer.token_id, answer.hmac, answer.max_timestamp_ms) == ("", b"", -1)


async def test_a_token_for_another_needs_create_tokens_on_that_user() -> None:
    """KIP-373; the principal is the resource's name, and prefixes count."""
    async with a_broker() as (running, _clock), running.connect() as client:
        await log_in(client, "alice")
        refused = await client.call(3, creation(owner="bob"))
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
        await _allow(running, Operation.CREATE_TOKENS, AclResourceType.USER, "User:bo", prefix=True)
        made = await client.call(3, creation(owner="bob"))
        assert made.error_code == ErrorCode.NONE
        assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
        # The token is bob's: its requester may not renew it.
        renewed = await client.call(2, RenewDelegationTokenRequest(made.hmac, -1))
        assert renewed.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        async with running.connect() as other:
            await log_in(other, "bob")
            (one,) = (await other.call(3, DescribeDelegationTokenRequest(None))).tokens
            assert (one.principal_name, one.token_requester_principal_name) == ("bob", "alice")


async def test_an_owner_must_be_a_user() -> None:
    """A login with the token would be that of the user of this name."""
    async with a_broker() as (running, _clock), running.connect() as client:
        await log_in(client, "alice")
        await _allow(running, Operation.CREATE_TOKENS, AclResourceType.USER, "Group:bob")
        request = creation(owner="bob")
        request.owner_principal_type = "Group"
        answer = await client.call(3, request)
        assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (Operation.DESCRIBE, AclResourceType.DELEGATION_TOKEN),
        (Operation.DESCRIBE_TOKENS, AclResourceType.USER),
    ],
)
async def test_tokens_of_others_are_listed_with_either_right(
    operation: Operation, kind: AclResourceType
) -> None:
    """Of the owners that are asked for."""
    async with (
        a_broker() as (running, _clock),
        running.connect() as alice,
        running.connect() as bob,
    ):
        await log_in(alice, "alice")
        await log_in(bob, "bob")
        first, second = [(await bob.call(3, creation())).token_id for _ in range(2)]
        mine = (await alice.call(3, creation())).token_id

        async def seen(*owners: str) -> set[str]:
            wanted = [DescribeDelegationTokenOwner("User", one) for one in owners]
            request = DescribeDelegationTokenRequest(wanted or None)
            return {one.token_id for one in (await alice.call(3, request)).tokens}

        assert await seen() == {mine}
        is_token = kind is AclResourceType.DELEGATION_TOKEN
        await _allow(running, operation, kind, first if is_token else "User:bob")
        theirs = {first} if is_token else {first, second}
        assert await seen() == {mine, *theirs}
        assert await seen("bob") == theirs
        assert await seen("alice") == {mine}
        assert await seen("alice", "bob") == {mine, *theirs}
        assert await seen("carol") == set()
        none = await alice.call(3, DescribeDelegationTokenRequest([]))
        assert (none.error_code, none.tokens) == (ErrorCode.NONE, [])


REQUESTS = [
    (3, creation()),
    (3, creation(owner="bob")),
    (2, RenewDelegationTokenRequest(NO_TOKEN, -1)),
    (2, ExpireDelegationTokenRequest(NO_TOKEN, -1)),
    (3, DescribeDelegationTokenRequest(None)),
]


@pytest.mark.parametrize(("version", "request_"), REQUESTS)
async def test_a_client_with_a_token_does_nothing_with_tokens(version: int, request_: Any) -> None:
    """A stolen token must not become new ones, nor live longer."""
    async with (
        a_broker() as (running, _clock),
        running.connect() as alice,
        running.connect() as holder,
    ):
        await log_in(alice, "alice")
        made = await alice.call(3, creation())
        await log_in_by_token(holder, made.token_id, made.hmac)
        answer = await holder.call(version, request_)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        tokens = (await alice.call(3, DescribeDelegationTokenRequest(None))).tokens
        assert [one.token_id for one in tokens] == [made.token_id]


async def test_a_session_is_judged_by_its_last_login() -> None:
    """A re-authentication with a token takes the right away, one with the password gives it."""
    async with a_broker() as (running, _clock), running.connect() as client:
        await log_in(client, "alice")
        made = await client.call(3, creation())
        # Another mechanism than that of the session is refused: begin with the token.
        async with running.connect() as holder:
            await log_in_by_token(holder, made.token_id, made.hmac)
            await log_in_by_token(holder, made.token_id, made.hmac)
            answer = await holder.call(3, creation())
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(("version", "request_"), REQUESTS)
async def test_on_plaintext_no_client_does_anything_with_tokens(
    version: int, request_: Any
) -> None:
    """Also on a broker that has tokens, and without any rules."""
    settings = {"delegation.token.secret.key": SECRET}
    async with running_broker(settings) as running, running.connect() as client:
        answer = await client.call(version, request_)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("secret", ["", "  "])
@pytest.mark.parametrize(("version", "request_"), [REQUESTS[0], *REQUESTS[2:]])
async def test_without_a_secret_there_are_no_tokens(
    version: int, request_: Any, secret: str
) -> None:
    """A blank one is none."""
    async with (
        a_broker(delegation_token_secret_key=secret) as (running, _clock),
        running.connect() as client,
    ):
        await log_in(client, "alice")
        answer = await client.call(version, request_)
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


async def test_the_older_name_of_the_secret_counts() -> None:
    """As in Kafka, unless the newer one is set."""
    for settings in (
        {"delegation_token_secret_key": "", "delegation_token_master_key": SECRET},
        {"delegation_token_secret_key": SECRET, "delegation_token_master_key": "another"},
    ):
        async with a_broker(**settings) as (running, _clock), running.connect() as client:
            await log_in(client, "alice")
            made = await client.call(3, creation())
            assert made.hmac == hmac.digest(SECRET.encode(), made.token_id.encode(), "sha512")


async def test_changes_are_in_the_audit_log_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who has created, renewed and expired which token of whom."""
    caplog.set_level("DEBUG")
    async with (
        a_broker() as (running, _clock),
        admin_with(running.broker.address, by_password("alice")) as admin,
    ):
        token = await admin.tokens.create_token(["User:bob"])
        await admin.tokens.renew_token(token.hmac)
        await admin.tokens.expire_token(token.hmac)
    async with (
        a_broker() as (running, _clock),
        admin_with(running.broker.address, by_password("bob")) as admin,
    ):
        shown = repr(await admin.describe_configs(ResourceType.BROKER, "1"))
        assert "delegation.token.secret.key" in shown
        assert SECRET not in shown
    changes = [
        line for line in caplog.messages if '"event":"change"' in line and token.token_id in line
    ]
    assert [verb for line in changes for verb in ("Create", "Renew", "Expire") if verb in line] == [
        "Create",
        "Renew",
        "Expire",
    ]
    assert all('"principal":"User:alice"' in line for line in changes)
    for secret in (SECRET, token.hmac.reveal()):
        assert secret not in caplog.text
        assert secret not in repr(token)
        assert secret not in repr(running.broker.config.delegation_token_secret)


async def _allow(
    running: RunningBroker,
    operation: Operation,
    kind: AclResourceType,
    name: str,
    *,
    prefix: bool = False,
) -> None:
    """Alice may do it."""
    pattern = AclPattern(kind, name, PatternType.PREFIXED if prefix else PatternType.LITERAL)
    rule = AclRule(pattern, "User:alice", "*", operation, Permission.ALLOW)
    acls = running.broker.parts.authorization.acls
    assert acls is not None
    assert set((await acls.change({pattern: lambda before: (*before, rule)})).values()) == {None}

"""SCRAM users: made, listed, changed and deleted through the API, and their sessions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.server.first_users import parse_first_user
from ottla.client.admin import Admin
from ottla.client.settings.config import ClientConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_user_scram_credentials as altering
from ottla.protocol.messages import describe_user_scram_credentials as describing
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.sasl.scram_record import SCRAM_SHA_256, record_of
from ottla.protocol.secret import Secret
from ottla.wire.api import declare
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.errors import AuthenticationFailed, RequestRefused
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from ottla.wire.sasl import PasswordSasl
from ottla.wire.security import ConnectionSecurity
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from ottla.wire.connection import Connection
    from tests.support.in_process import RunningBroker

METADATA = declare(ApiKey.METADATA, MetadataRequest, MetadataResponse, 0, 9)
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


async def logged_in(
    running: RunningBroker, user: str, password: str, mechanism: str = "SCRAM-SHA-512"
) -> Connection:
    sasl = PasswordSasl(mechanism, user, Secret(password))
    config = ConnectionConfig(security=ConnectionSecurity(sasl=sasl))
    return await connect(RealNet(), RealClock(), running.broker.address, config)


def admin_of(running: RunningBroker) -> Admin:
    """An administrator that logs in with PLAIN."""
    address = running.broker.address
    sasl = PasswordSasl("PLAIN", "alice", Secret("alice-secret"))
    config = ClientConfig(security=ConnectionSecurity(sasl=sasl))
    return Admin(f"{address.host}:{address.port}", config)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_user_logs_in_as_soon_as_it_is_made(mechanism: str) -> None:
    """And only with its password and its mechanism."""
    settings = sasl_settings("PLAIN", *MECHANISMS)
    async with running_broker(settings) as running, admin_of(running) as admin:
        await admin.users.set_password("carol/ü", "carol-secret", mechanism, 5000)
        connection = await logged_in(running, "carol/ü", "carol-secret", mechanism)
        assert (await connection.send(METADATA, MetadataRequest([]))).brokers
        connection.close()
        (other,) = set(MECHANISMS) - {mechanism}
        for user, password, asked in (
            ("carol/ü", "wrong", mechanism),
            ("carol/ü", "carol-secret", other),
            ("Carol/ü", "carol-secret", mechanism),
            ("carol/ü ", "carol-secret", mechanism),
        ):
            with pytest.raises(AuthenticationFailed):
                await logged_in(running, user, password, asked)
        (view,) = await admin.users.describe_users()
        assert view == ("carol/ü", {mechanism: 5000})


@pytest.mark.parametrize("change", ["password", "delete"])
async def test_a_changed_credential_ends_the_sessions_that_rest_on_it(change: str) -> None:
    """Who leaves must not stay connected for weeks; other users must not notice."""
    settings = sasl_settings("PLAIN", *MECHANISMS)
    async with running_broker(settings) as running, admin_of(running) as admin:
        await admin.users.set_password("carol", "one")
        await admin.users.set_password("dora", "two")
        carol = await logged_in(running, "carol", "one")
        dora = await logged_in(running, "dora", "two")
        ended = asyncio.Event()
        carol.on_close(ended.set)
        if change == "password":
            await admin.users.set_password("carol", "three")
        else:
            await admin.users.delete_user("carol")
        await asyncio.wait_for(ended.wait(), 30)
        assert (await dora.send(METADATA, MetadataRequest([]))).brokers
        with pytest.raises(AuthenticationFailed):
            await logged_in(running, "carol", "one")
        dora.close()


async def test_users_keep_their_quotas_and_other_credentials() -> None:
    """All of these are settings of one user in the store."""
    settings = sasl_settings("PLAIN", *MECHANISMS)
    async with running_broker(settings) as running, admin_of(running) as admin:
        await admin.quotas.alter_quotas({"user": "carol"}, {"producer_byte_rate": 1000})
        for mechanism in MECHANISMS:
            await admin.users.set_password("carol", "one", mechanism)
        await admin.users.delete_user("carol", "SCRAM-SHA-256")
        assert (await admin.users.describe_users(["carol"]))[0].mechanisms == {
            "SCRAM-SHA-512": 4096
        }
        assert (await admin.quotas.describe_quotas())[0].quotas == {"producer_byte_rate": 1000}
        with pytest.raises(RequestRefused, match="there is no user 'ghost'"):
            await admin.users.delete_user("ghost")


def upsertion(name: str, **changes: Any) -> altering.ScramCredentialUpsertion:
    fields = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
    return altering.ScramCredentialUpsertion(name, **{**fields, **changes})


async def test_each_result_has_the_error_that_kafka_gives() -> None:
    """Tools show them by name."""
    async with running_broker() as running, running.connect() as client:
        request = altering.AlterUserScramCredentialsRequest(
            deletions=[
                altering.ScramCredentialDeletion("ghost", 1),
                altering.ScramCredentialDeletion("twice", 1),
                altering.ScramCredentialDeletion("", 1),
                altering.ScramCredentialDeletion("odd", 7),
            ],
            upsertions=[
                upsertion("twice"),
                upsertion("few", iterations=4095),
                upsertion("many", iterations=16_385),
                upsertion("bad\nname"),
                upsertion("saltless", salt=b""),
                upsertion("fine"),
                upsertion("weird", mechanism=0),
            ],
        )
        answer = await client.call(0, request)
        codes = {one.user: ErrorCode(one.error_code) for one in answer.results}
        assert codes == {
            "ghost": ErrorCode.RESOURCE_NOT_FOUND,
            "twice": ErrorCode.DUPLICATE_RESOURCE,
            "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "odd": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "bad\nname": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "saltless": ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "fine": ErrorCode.NONE,
            "weird": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        }
        names = [describing.UserName(name) for name in ("fine", "ghost", "double", "double")]
        seen = await client.call(0, describing.DescribeUserScramCredentialsRequest(names))
        assert [(one.user, ErrorCode(one.error_code)) for one in seen.results] == [
            ("fine", ErrorCode.NONE),
            ("ghost", ErrorCode.RESOURCE_NOT_FOUND),
            ("double", ErrorCode.DUPLICATE_RESOURCE),
        ]
        assert seen.results[0].credential_infos == [describing.CredentialInfo(1, 4096)]


async def test_a_first_user_is_made_before_the_broker_serves_and_then_left_alone() -> None:
    """A restart with the same command line must not set an old password again."""
    settings = sasl_settings("SCRAM-SHA-256")
    async with running_broker(
        settings, first_users=[parse_first_user("SCRAM-SHA-256=[name=root,password=first]")]
    ) as running:
        broker = running.broker
        connection = await logged_in(running, "root", "first", "SCRAM-SHA-256")
        connection.close()
        broker.first_users = [parse_first_user("SCRAM-SHA-256=[name=root,password=second]")]
        await broker._make_first_users(broker._session())
        connection = await logged_in(running, "root", "first", "SCRAM-SHA-256")
        connection.close()


def test_a_first_user_is_written_as_in_kafkas_tool() -> None:
    """The same words as kafka-storage."""
    user = parse_first_user('SCRAM-SHA-256=[name="alice",password="a=b c",iterations=8192]')

    assert (user.name, user.mechanism, user.iterations) == ("alice", SCRAM_SHA_256, 8192)
    assert user.password.reveal() == "a=b c"
    assert record_of(SCRAM_SHA_256, user.password, b"salt").iterations == 4096
    for text, problem in (
        ("SCRAM-SHA-1=[name=a,password=hunter2]", "has to be"),
        ("SCRAM-SHA-256=name=a,password=hunter2", "has to be"),
        ("SCRAM-SHA-256=[name=a,hunter2]", "brackets hold name"),
        ("SCRAM-SHA-256=[password=hunter2]", "needs a name"),
        ("SCRAM-SHA-256=[name=a]", "needs a password"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=5]", "between 4096"),
    ):
        with pytest.raises(ValueError, match=problem) as caught:
            parse_first_user(text)
        assert "hunter2" not in str(caught.value)

"""The broker's side of a login, when its credential changes between the challenge and the proof."""

from __future__ import annotations

import pytest

from ottla.broker.security.credentials import Credentials
from ottla.broker.security.exchanges import ScramExchange
from ottla.coordinator.metadata.image import Entity, MetadataImage
from ottla.coordinator.store.entities import USERS, quoted
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_SHA_256, record_of
from ottla.protocol.secret import Secret
from ottla.wire.real import RealRandom

SALT = b"0123456789abcdef"
PASSWORD = Secret("carol-secret")
RECORD = record_of(SCRAM_SHA_256, PASSWORD, SALT).text()
OTHER = record_of(SCRAM_SHA_256, Secret("another-secret"), SALT).text()


async def log_in(before: str, after: str | None) -> str:
    """The user that is logged in, when the stored record changes after the challenge."""
    texts = {SCRAM_SHA_256.name: before}
    image = MetadataImage("cluster", configs={Entity(USERS, quoted("carol")): texts})

    async def at_once() -> None: ...

    credentials = Credentials(lambda: image, at_once, {}, RealRandom())
    exchange = ScramExchange(SCRAM_SHA_256, credentials, RealRandom())
    client = ScramClient(SCRAM_SHA_256, "carol", PASSWORD, "n" * 24)
    challenge, _ = await exchange.respond(client.first())
    proof = client.next(challenge)
    assert proof is not None
    texts.clear()
    if after is not None:
        texts[SCRAM_SHA_256.name] = after
    _, authenticated = await exchange.respond(proof)
    assert authenticated is not None
    return authenticated.user


async def test_a_user_that_stays_as_it_was_logs_in() -> None:
    """The record of the challenge is the one that is stored."""
    assert await log_in(RECORD, RECORD) == "carol"


@pytest.mark.parametrize("after", [None, OTHER], ids=["deleted", "changed"])
async def test_a_login_under_way_does_not_outlive_its_credential(after: str | None) -> None:
    """A client that has its challenge already could else go on with a password that was revoked."""
    with pytest.raises(KafkaError, match="changed or deleted") as caught:
        await log_in(RECORD, after)
    assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED

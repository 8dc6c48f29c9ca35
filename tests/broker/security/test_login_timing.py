"""An unknown user and a wrong password take the same time to refuse."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.security.credentials import Credentials
from ottla.broker.security.exchanges import PlainExchange, ScramExchange
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.coordinator.metadata.image import Entity, MetadataImage
from ottla.protocol.errors import KafkaError
from ottla.protocol.sasl.plain import PlainClient
from ottla.protocol.sasl.scram import ScramClient
from ottla.protocol.sasl.scram_record import SCRAM_SHA_512, record_of
from ottla.protocol.secret import Secret
from ottla.wire.real import RealRandom
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES = 400
NOISE = 0.05
LISTENER = "SASL_PLAINTEXT"
WRONG = Secret("wrong")


class Inline:
    """Work that would run in a thread."""

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


async def _read() -> None: ...


def credentials() -> Credentials:
    record = record_of(SCRAM_SHA_512, Secret("right"), b"0123456789abcdef")
    image = MetadataImage(
        "cluster", configs={Entity("users", "alice"): {SCRAM_SHA_512.name: record.text()}}
    )
    sasl = parse_broker_config(sasl_settings("PLAIN", SCRAM_SHA_512.name)).config.sasl
    return Credentials(lambda: image, _read, sasl, RealRandom())


async def plain_ms(known: Credentials, user: str) -> float:
    token = PlainClient(user, WRONG).first()
    begun = time.perf_counter()
    with pytest.raises(KafkaError):
        await PlainExchange(known, LISTENER, Inline()).respond(token)
    return time.perf_counter() - begun


async def scram_ms(known: Credentials, user: str) -> float:
    """Both steps of the broker, without the client's work between them."""
    client = ScramClient(SCRAM_SHA_512, user, WRONG, "clientnonce")
    exchange = ScramExchange(SCRAM_SHA_512, known, RealRandom())
    first = client.first()
    begun = time.perf_counter()
    challenge = (await exchange.respond(first)).token
    between = time.perf_counter() - begun
    proof = client.next(challenge)
    assert proof is not None
    begun = time.perf_counter()
    with pytest.raises(KafkaError):
        await exchange.respond(proof)
    return time.perf_counter() - begun + between


@pytest.mark.soak
@pytest.mark.parametrize(("measure", "noise"), [(plain_ms, NOISE), (scram_ms, 6 * NOISE)])
async def test_a_stranger_cannot_tell_users_apart_by_time(measure: Any, noise: float) -> None:
    """Medians of tries in turn, so that both see the same machine. A step of SCRAM is only some
    hundredths of a millisecond, of which the network's noise is a multiple."""
    known = credentials()
    unknown_user, wrong_password = [], []
    for number in range(TRIES):
        unknown_user.append(await measure(known, f"user{number % 7}"))
        wrong_password.append(await measure(known, "alice"))
    ghost, alice = statistics.median(unknown_user), statistics.median(wrong_password)

    assert abs(ghost - alice) < noise * max(ghost, alice), (ghost, alice)

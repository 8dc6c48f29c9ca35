"""A stranger that guesses passwords.

``python -m tests.support.hostile.guesses``; arguments: the port of a SASL listener without TLS,
how many guesses, how many of them per second, from how many addresses, and for how many users.
Every second guess waits for its answer; the others hang up after a tenth of a second, because a
right password would have been answered by then. It says ``begun`` at the start, and at the end how
many guesses were refused, how many got no answer, and how many were let in.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import RawClient

HOST = "127.0.0.1"
HANDSHAKE = SaslHandshakeRequest("PLAIN")
IMPATIENT_S = 0.1
PATIENT_S = 30.0


class Guesser(RawClient):
    """A client that connects from another address."""

    def __init__(self, port: int, source: str) -> None:
        super().__init__(HOST, port)
        self._source = source

    async def __aenter__(self) -> Guesser:
        self._reader, self._writer = await asyncio.open_connection(
            HOST, self._port, local_addr=(self._source, 0)
        )
        return self


async def _guess(port: int, source: str, user: str, number: int) -> str:
    patience_s = IMPATIENT_S if number % 2 else PATIENT_S
    try:
        async with Guesser(port, source) as client:
            client.send(1, HANDSHAKE)
            request = SaslAuthenticateRequest(f"\0{user}\0guess-{number}".encode())
            client.send(2, request)
            async with asyncio.timeout(patience_s):
                await client.answer(1, HANDSHAKE)
                answer = await client.answer(2, request)
        return "let in" if answer.error_code == 0 else "refused"
    except (OSError, EOFError, TimeoutError):
        return "without answer"


async def main(port: int, count: int, per_second: int, sources: int, users: int) -> None:
    """Guess that often."""
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    guesses = set()
    for number in range(count):
        place = number % sources
        source = f"127.0.{2 + place // 250}.{1 + place % 250}"
        user = "alice" if number % users == 0 else f"user{number % users}"
        guesses.add(asyncio.create_task(_guess(port, source, user, number)))
        await asyncio.sleep(1 / per_second)
    ends = Counter(await asyncio.gather(*guesses))
    sys.stdout.write(f"{ends['refused']} {ends['without answer']} {ends['let in']}\n")


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))

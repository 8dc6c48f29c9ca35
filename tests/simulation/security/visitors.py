"""Simulated clients of a secured cluster: one that is refused, one that deals in tokens, and the
holders of its tokens."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.simulation.clients.client import LATEST
from tests.simulation.clients.wire import Gone
from tests.simulation.security.audit_evidence import Decision
from tests.simulation.security.sessions import LoginRefused, by_password, by_token
from tests.simulation.security.token_evidence import Served

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.clients.client import Client
    from tests.simulation.clients.wire import Wire
    from tests.simulation.security.audit_evidence import AuditEvidence
    from tests.simulation.security.token_evidence import TokenEvidence

LIFETIMES_MS = (700, 2_500, 8_000, 60_000)
# Of the requests of one session, until its client logs in again, perhaps elsewhere.
REQUESTS_MAX = 60
TOKENS_MAX = 6


class MadeToken(NamedTuple):
    """A token as its maker got it."""

    token_id: str
    hmac: bytes

    @property
    def password(self) -> str:
        """What its holder logs in with."""
        return base64.b64encode(self.hmac).decode()


class Around(NamedTuple):
    """What the clients share. ``wall_ms``: the date on a broker, None while it does not run."""

    audit: AuditEvidence
    tokens: TokenEvidence
    brokers: int
    wall_ms: Callable[[int], float | None]
    go_on: Callable[[], bool]


class Outsider:
    """Eve, who may do nothing, asks for one topic after the other, each once."""

    def __init__(self, client: Client, around: Around) -> None:
        self._client = client
        self._around = around
        self._asked = 0

    async def run(self) -> None:
        """Until the end."""
        while self._around.go_on():
            broker = self._client.random.below(self._around.brokers)
            try:
                wire = await by_password(self._client, broker, "eve")
                for _ in range(1 + self._client.random.below(12)):
                    await self._be_refused(wire, broker)
                    await self._client.ports.clock.sleep(self._client.random.exponential(120.0))
                wire.close()
            except (Gone, LoginRefused):
                await self._client.pause()

    async def _be_refused(self, wire: Wire, broker: int) -> None:
        self._asked += 1
        name = f"secret-{self._asked}"
        self._around.audit.tried.add(("Describe", name))
        partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name, [partition])])
        answer = await wire.call(request, ApiKey.LIST_OFFSETS, 1)
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._around.audit.told.append(Decision(broker, "refusal", "Describe", name))
        else:
            self._client.history.surprises.append(f"eve gets {ErrorCode(code).name} for {name}")


class TokenMaker:
    """The owner of all tokens: makes, renews and expires them over any broker."""

    def __init__(self, client: Client, around: Around, made: list[MadeToken]) -> None:
        self._client = client
        self._random = client.random
        self._around = around
        self.made = made

    async def run(self) -> None:
        """Until the end."""
        while self._around.go_on():
            broker = self._random.below(self._around.brokers)
            try:
                wire = await by_password(self._client, broker, "admin")
                await self._act(wire, broker)
                wire.close()
            except (Gone, LoginRefused):
                await self._client.pause()
            await self._client.ports.clock.sleep(self._random.exponential(500.0))

    async def _act(self, wire: Wire, broker: int) -> None:
        alive = [one for one in self.made if one.token_id not in self._around.tokens.removed_s]
        if len(alive) < 2 or (len(alive) < TOKENS_MAX and self._random.chance(0.4)):
            await self._make(wire, broker)
            return
        token = self._random.choice(alive)
        if self._random.chance(0.4):
            # The store tells of the new end: see the scenario.
            renewal = RenewDelegationTokenRequest(token.hmac, self._random.choice((-1, 3_000)))
            await wire.call(renewal, ApiKey.RENEW_DELEGATION_TOKEN, 2)
            return
        expiry = ExpireDelegationTokenRequest(token.hmac, -1)
        answer = await wire.call(expiry, ApiKey.EXPIRE_DELEGATION_TOKEN, 2)
        if answer.error_code == ErrorCode.NONE:
            self._told(broker, "Expire", token.token_id)

    async def _make(self, wire: Wire, broker: int) -> None:
        request = CreateDelegationTokenRequest(max_lifetime_ms=self._random.choice(LIFETIMES_MS))
        answer: Any = await wire.call(request, ApiKey.CREATE_DELEGATION_TOKEN, 2)
        if answer.error_code == ErrorCode.NONE:
            self.made.append(MadeToken(answer.token_id, bytes(answer.hmac)))
            self._told(broker, "Create", answer.token_id)

    def _told(self, broker: int, verb: str, token_id: str) -> None:
        self._around.audit.tried.add((verb, token_id))
        self._around.audit.told.append(Decision(broker, "change", verb, token_id))


class TokenHolder:
    """Logs in with one token after the other, the dead ones too, and asks as long as it can."""

    def __init__(self, client: Client, around: Around, made: list[MadeToken]) -> None:
        self._client = client
        self._random = client.random
        self._around = around
        self._made = made

    async def run(self) -> None:
        """Until the end."""
        while self._around.go_on():
            if not self._made:
                await self._client.pause()
                continue
            # Mostly a new one: an old one is dead.
            recent = self._made[-4:] if self._random.chance(0.8) else self._made
            await self._use(self._random.choice(recent), self._random.below(self._around.brokers))
            await self._client.pause()

    async def _use(self, token: MadeToken, broker: int) -> None:
        evidence = self._around.tokens
        try:
            # The last step of the login is the one that asks; earlier is safe.
            before = self._moment(token, broker)
            wire = await by_token(self._client, broker, token.token_id, token.password)
            self._served(before)
            for _ in range(self._random.below(REQUESTS_MAX)):
                await self._client.ports.clock.sleep(self._random.between(30.0, 250.0))
                before = self._moment(token, broker)
                await wire.call(MetadataRequest(topics=[]), ApiKey.METADATA, 7)
                self._served(before)
            wire.close()
        except LoginRefused:
            evidence.refused_logins += 1
        except Gone:
            now = self._moment(token, broker)
            if now is not None and evidence.is_dead(token.token_id, now.asked_s, now.wall_ms):
                evidence.ended += 1

    def _moment(self, token: MadeToken, broker: int) -> Served | None:
        wall_ms = self._around.wall_ms(broker)
        if wall_ms is None:
            return None
        now_s = asyncio.get_running_loop().time()
        return Served(token.token_id, broker, now_s, wall_ms)

    def _served(self, asked: Served | None) -> None:
        if asked is not None:
            self._around.tokens.served.append(asked)

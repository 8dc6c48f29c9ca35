"""Delegation tokens in the metadata store: every broker follows them and changes them for clients.

A sequential znode announces each change. Every broker reads the announcements and then the tokens
that they name. The controller removes expired tokens.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.engine.concurrently import pipelined
from ottla.broker.security.delegation_tokens import DelegationTokens
from ottla.broker.security.token_changes import change_token, create_token
from ottla.broker.security.token_rules import TokenLifetimes, created
from ottla.coordinator.store import delegation_tokens as layout
from ottla.coordinator.store.announcements import AnnouncementFollower, ensure_znode
from ottla.coordinator.store.store import NoNode, StoreError
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from ottla.broker.engine.context import RequestCaller
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.security.token_changes import TokenEdit
    from ottla.broker.security.token_rules import TokenOrder
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.store.announcements import ChangeAnnouncement
    from ottla.coordinator.store.delegation_tokens import TokenInformation
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Ports
    from ottla.protocol.secret import Secret

logger = logging.getLogger("ottla.security")

# Maximum delay before the sessions of an expired token end.
TICK_MS = 250
ID_BYTES = 16


class TokenStore:
    """The tokens in the store, owned by the server of a broker with a secret; it follows them in
    one session after another.

    Args:
        tokens: What this broker knows.
        lifetimes: The limits of new and renewed tokens.
        ports: The clock, and randomness for the ids of tokens.
        tasks: Runs the follower.
    """

    def __init__(
        self, tokens: DelegationTokens, lifetimes: TokenLifetimes, ports: Ports, tasks: Tasks
    ) -> None:
        self.tokens = tokens
        self.lifetimes = lifetimes
        # Called for each change for a client: the caller, the verb, the token's id and its owner.
        self.on_change: Callable[[RequestCaller, str, str, str], object] = lambda *_change: None
        self._clock = ports.clock
        self._random = ports.random
        self._session: MetadataSession | None = None
        self._follower = AnnouncementFollower(
            "delegation tokens", tasks.spawn, (layout.CHANGES,), self._take
        )
        # Read and apply under one lock: the older of two overlapping reads must not win.
        self._lock = asyncio.Lock()

    # ---- following ----

    async def begin(self, session: MetadataSession) -> None:
        """Read every token in the new session and follow the changes. Raises StoreError."""
        for path in layout.PERMANENT_PATHS:
            await ensure_znode(session, path)
        self._session = session
        await self._follower.watch(session)
        async with self._lock:
            ids = await session.children(layout.TOKENS)
            found = await pipelined(partial(_read, session), ids)
            self.tokens.take_all(token for token in found if token is not None)
        self._follower.start(session)

    async def end(self) -> None:
        """Stop following; the known tokens remain valid until they expire."""
        self._session = None
        await self._follower.end()

    async def _take(
        self, session: MetadataSession, announced: Sequence[ChangeAnnouncement]
    ) -> None:
        """Read the tokens again that have changed."""
        ids = (layout.parse_change(one.data) for one in announced)
        await self._refresh(session, list(dict.fromkeys(one for one in ids if one is not None)))

    async def _refresh(self, session: MetadataSession, token_ids: Sequence[str]) -> None:
        async with self._lock:
            found = await pipelined(partial(_read, session), token_ids)
            self.tokens.take(dict(zip(token_ids, found, strict=True)))

    # ---- changing ----

    async def create(self, order: TokenOrder) -> TokenInformation:
        """Create a token. On return this broker knows it; the others know it after they have read
        the announcement. Raises KafkaError."""
        text = base64.urlsafe_b64encode(self._random.token(ID_BYTES)).rstrip(b"=").decode()
        token = created(text, order, self.lifetimes, self._clock.wall_ms())
        await self._write(text, lambda session: create_token(session, self._clock, token))
        return token

    async def change(self, token_id: str, edit: TokenEdit) -> TokenInformation | None:
        """Change or remove a token; return the result. Raises KafkaError."""
        return await self._write(
            token_id, lambda session: change_token(session, self._clock, token_id, edit)
        )

    async def _write(
        self,
        token_id: str,
        write: Callable[[MetadataSession], Coroutine[Any, Any, TokenInformation | None]],
    ) -> TokenInformation | None:
        session = self._session
        if session is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "no session with the metadata store")
        try:
            after = await write(session)
            await self._refresh(session, [token_id])
        except StoreError as error:
            text = f"the metadata store did not take the change: {error}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error
        return after

    # ---- the end of tokens ----

    async def run(self, is_controller: Callable[[], bool], check_interval_ms: int) -> None:
        """End the sessions of expired tokens; while this broker is the controller also remove those
        tokens, at once when it is elected and then at that interval."""
        next_ms: float | None = None
        while True:
            await self._clock.sleep(TICK_MS)
            self.tokens.end_expired()
            now_ms = self._clock.now_ms()
            if not is_controller():
                next_ms = None
            elif next_ms is None or now_ms >= next_ms:
                next_ms = now_ms + check_interval_ms
                await self.remove_expired()

    async def remove_expired(self) -> None:
        """Remove expired tokens. A removal that fails is tried again at the next turn."""
        wall_ms = self._clock.wall_ms()
        for token in self.tokens.all():
            if not token.is_expired(wall_ms):
                continue
            try:
                # A token that another broker has renewed meanwhile is kept.
                await self.change(
                    token.token_id, lambda found: None if found.is_expired(wall_ms) else found
                )
            except KafkaError as error:
                logger.info("an expired delegation token stays for now: %s", error.message)


def build_token_store(
    config: BrokerConfig, secret: Secret, ports: Ports, tasks: Tasks
) -> TokenStore:
    """Build the store by the broker's settings, of which ``secret`` is one."""
    tokens = DelegationTokens(secret, ports.clock, ports.offload)
    lifetimes = TokenLifetimes(
        config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    )
    return TokenStore(tokens, lifetimes, ports, tasks)


async def _read(session: MetadataSession, token_id: str) -> TokenInformation | None:
    try:
        found = await session.get(layout.path_of(token_id))
    except NoNode:
        return None
    token = layout.parse_token(token_id, found.data)
    if token is None:
        # ASCII only: any client that can write to the store can choose the name.
        logger.error("the delegation token %r in the metadata store is unreadable", token_id[:64])
    return token

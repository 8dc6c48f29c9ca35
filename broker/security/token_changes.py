"""Writes delegation tokens to the metadata store, each change together with its announcement.

A change of a token is conditional on the znode version that was read, so no change is lost when two
brokers change the token at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.coordinator.store import delegation_tokens as layout
from ottla.coordinator.store.announcements import write_announced
from ottla.coordinator.store.delegation_tokens import TokenInformation
from ottla.coordinator.store.store import Create, Delete, NoNode, Replace
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.store.store import MetadataSession, Operation
    from ottla.protocol.ports import Clock

TokenEdit = Callable[[TokenInformation], TokenInformation | None]
"""From a token as it is stored to what it becomes, None to remove it. May be called several times.
Raises KafkaError."""

_ATTEMPTS = 12
_RETRY_MS = 50


async def create_token(session: MetadataSession, clock: Clock, token: TokenInformation) -> None:
    """Write a new token. Raises KafkaError, StoreError."""
    data = layout.build_token(token)
    if len(data) > layout.TOKEN_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"a delegation token takes at most {layout.TOKEN_BYTES_MAX} bytes: name fewer renewers",
        )
    path = layout.path_of(token.token_id)
    for attempt in range(_ATTEMPTS):
        if attempt:
            await clock.sleep(_RETRY_MS * attempt)
            # Ids are random: the znode exists because the response to its creation was lost.
            if await session.exists(path) is not None:
                return
        if await _write(session, token.token_id, Create(path, data)):
            return
    raise _too_often(path)


async def change_token(
    session: MetadataSession, clock: Clock, token_id: str, edit: TokenEdit
) -> TokenInformation | None:
    """Change or remove a token; return the result. Raises KafkaError, StoreError."""
    path = layout.path_of(token_id)
    after: TokenInformation | None = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            await clock.sleep(_RETRY_MS * attempt)
        try:
            found = await session.get(path)
        except NoNode:
            if attempt and after is None:
                return None
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND) from None
        before = layout.parse_token(token_id, found.data)
        if before is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        after = edit(before)
        step: Operation = Delete(path, found.stat.version)
        if after is not None:
            step = Replace(path, layout.build_token(after), found.stat.version)
        if await _write(session, token_id, step):
            return after
    raise _too_often(path)


async def _write(session: MetadataSession, token_id: str, step: Operation) -> bool:
    """Write once. False: another broker wrote first, or the outcome is unknown."""
    told = f"{layout.CHANGES}/{layout.CHANGE_PREFIX}"
    return await write_announced(session, step, told, layout.build_change(token_id))


def _too_often(path: str) -> KafkaError:
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT, f"{path} is being changed by other brokers: try again"
    )

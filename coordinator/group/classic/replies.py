"""Error responses to JoinGroup and SyncGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.protocol.errors import ErrorCode


def refused_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """An error response; ``member_id`` is the id to rejoin with, empty for a new member."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def refused_sync(error: ErrorCode) -> SyncGroupResponse:
    """An error response without an assignment."""
    return SyncGroupResponse(error_code=error)

"""Refusals that members of classic groups are answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.protocol.errors import ErrorCode


def refused_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """The id is the one to come again with; empty where there is none."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def refused_sync(error: ErrorCode) -> SyncGroupResponse:
    """No assignment for now."""
    return SyncGroupResponse(error_code=error)

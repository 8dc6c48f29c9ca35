"""Answers without what differs from one broker to the next: ids, addresses, times, sentences."""

from __future__ import annotations

from typing import Any

from ottla.protocol.schema import WireType, schema_of

# Left out: where and when, and of which process.
HIDDEN = {
    "throttle_time_ms",
    "host",
    "port",
    "cluster_id",
    "controller_epoch",
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "authorized_operations",
    "config_type",
    "documentation",
}
# Known to be there or not, which is all that counts.
DRAWN = {"member_id", "session_id", "topic_id", "leader"}
# Which settings there are differs from version to version.
LISTED_MAX = 10
# Records of the cases are older, the brokers' clocks are not.
LONG_AGO_MS = 1_750_000_000_000
_ECHOED = {"m", "", "a b", "nope"}


def masked(message: Any) -> Any:
    """A message as JSON can say it; fields that have their default are left out."""
    found: dict[str, Any] = {}
    for name, field in schema_of(type(message)).fields.items():
        value = getattr(message, name)
        if name in HIDDEN or value == field.default:
            continue
        found[name] = _shown(name, field.kind, value)
    return found


def _shown(name: str, kind: Any, value: Any) -> Any:
    if name == "log_append_time_ms" and value > LONG_AGO_MS:
        return "now"
    if name.endswith("error_message"):
        return "a sentence" if value else value
    if name in DRAWN and value not in _ECHOED:
        return "drawn" if value and value != bytes(16) else None
    if kind is WireType.RECORDS:
        return "records" if value else ""
    if name == "configs" and len(value) > LISTED_MAX:
        return "all settings"
    if isinstance(value, list):
        shown = [_shown("", kind, one) for one in value]
        # Brokers list what they find in an order of their own.
        return sorted(shown, key=repr)
    if isinstance(kind, type):
        return None if value is None else masked(value)
    return value.hex() if isinstance(value, bytes | memoryview) else value

"""Which names a topic may have."""

from __future__ import annotations

import re

# A partition's directory is named "<topic>-<partition>" and may get a suffix while it is deleted:
# 249 characters leave room for that in the 255 that file systems allow.
NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def find_name_fault(name: str) -> str | None:
    """Why no topic can have this name; None if one can."""
    if not name:
        return "the topic name is empty"
    if name in (".", ".."):
        return f"a topic cannot be named {name!r}"
    if len(name) > NAME_LENGTH_MAX:
        return f"the topic name has {len(name)} characters, more than {NAME_LENGTH_MAX}"
    if _LEGAL.match(name) is None:
        return (
            f"the topic name {name!r} has characters other than ASCII letters, digits, '.', '_' "
            "and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Names with the same key would share their metrics, where '.' is written as '_'."""
    return name.replace(".", "_")

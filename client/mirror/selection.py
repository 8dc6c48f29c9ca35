"""Selects the topics of a source to copy, and their names on the target. Pure.

Prevents endless circles: a topic is left out if its name shows that it was copied by the same link
before, or if notes on the source say that it came from the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.mirror.settings import SAME_NAME, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from ottla.client.mirror.settings import MirrorSource

# The topic on the target that holds the mirrors' notes.
NOTES_TOPIC = "ottla.mirror.offsets"


class Circle(Exception):
    """The topic comes from the target, and would be copied back under its own name."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


def target_name(source: MirrorSource, topic: str) -> str:
    """The topic's name on the target."""
    return source.rename.replace("{source}", source.alias).replace(SAME_NAME, topic)


def selected(
    source: MirrorSource, names: Iterable[str], from_target: Set[str], *, is_marked: bool
) -> dict[str, str]:
    """The topics of a source to copy, each with its name on the target.

    ``names`` are all topics but internal ones, ``from_target`` those that another mirror fills from
    the target. With marks single records are left out instead of topics. Raises Circle."""
    found = {}
    for name in names:
        if name == NOTES_TOPIC or name.startswith("__"):
            continue
        if not matches(source.topics, name) or matches(source.exclude, name):
            continue
        target = target_name(source, name)
        if target != name and _came_this_way(source, name):
            continue
        if name in from_target and not is_marked:
            if target == name:
                raise Circle(name)
            continue
        found[name] = target
    return found


def _came_this_way(source: MirrorSource, name: str) -> bool:
    """Whether the name has this link's prefix or suffix, perhaps with others added since."""
    before, _, after = source.rename.replace("{source}", source.alias).partition(SAME_NAME)
    has_prefix = bool(before) and (name.startswith(before) or f".{before}" in name)
    has_suffix = bool(after) and (name.endswith(after) or f"{after}." in name)
    return has_prefix or has_suffix

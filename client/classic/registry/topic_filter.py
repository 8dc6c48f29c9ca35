"""Which topics a stream consumes: a white- or a blacklist of regular expressions. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


class TopicFilter(NamedTuple):
    """A regular expression that has to match a whole topic name, or must not.

    Commas mean "or", and spaces and quotes around the expression do not count, as in the documents.
    Create one with ``Whitelist`` or ``Blacklist``."""

    regex: str
    is_whitelist: bool

    def allows(self, topic: str, *, excludes_internal: bool = True) -> bool:
        """Whether the topic is consumed; internal topics are not, unless that is switched off."""
        if excludes_internal and topic in INTERNAL_TOPICS:
            return False
        return (_compiled(self.regex).fullmatch(topic) is not None) is self.is_whitelist

    def chosen(self, topics: Iterable[str], *, excludes_internal: bool = True) -> list[str]:
        """The topics that are consumed, sorted."""
        allowed = (one for one in topics if self.allows(one, excludes_internal=excludes_internal))
        return sorted(allowed)


def whitelist(regex: str) -> TopicFilter:
    """Consume the topics that match. Raises ValueError for what is no regular expression."""
    return TopicFilter(_cleaned(regex), True)


def blacklist(regex: str) -> TopicFilter:
    """Consume the topics that do not match. Raises ValueError for what is no expression."""
    return TopicFilter(_cleaned(regex), False)


def _cleaned(regex: str) -> str:
    cleaned = regex.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        _compiled(cleaned)
    except re.error as error:
        raise ValueError(f"{regex!r} is no regular expression of topic names: {error}") from None
    return cleaned

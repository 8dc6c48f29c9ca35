"""Selects a stream's topics by a white- or a blacklist of regular expressions. Pure."""

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
    Create one with ``Whitelist`` or ``Blacklist``.

    Attributes:
        regex: The expression, cleaned.
        is_whitelist: Whether matching topics are consumed, or all others.
    """

    regex: str
    is_whitelist: bool

    def allows(self, topic: str, *, excludes_internal: bool = True) -> bool:
        """Tell whether a topic is consumed.

        Args:
            topic: The topic's name.
            excludes_internal: Whether internal topics never are; True by default.

        Returns:
            Whether it is consumed.
        """
        if excludes_internal and topic in INTERNAL_TOPICS:
            return False
        return (_compiled(self.regex).fullmatch(topic) is not None) is self.is_whitelist

    def chosen(self, topics: Iterable[str], *, excludes_internal: bool = True) -> list[str]:
        """Choose the topics that are consumed.

        Args:
            topics: The names of topics.
            excludes_internal: Whether internal topics never are; True by default.

        Returns:
            The chosen names, sorted.
        """
        allowed = (one for one in topics if self.allows(one, excludes_internal=excludes_internal))
        return sorted(allowed)


def whitelist(regex: str) -> TopicFilter:
    """Consume the topics that match.

    Args:
        regex: An expression that has to match the whole name.

    Returns:
        The filter.

    Raises:
        ValueError: It is no regular expression.
    """
    return TopicFilter(_cleaned(regex), True)


def blacklist(regex: str) -> TopicFilter:
    """Consume the topics that do not match.

    Args:
        regex: An expression that has to match the whole name.

    Returns:
        The filter.

    Raises:
        ValueError: It is no regular expression.
    """
    return TopicFilter(_cleaned(regex), False)


def _cleaned(regex: str) -> str:
    cleaned = regex.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        _compiled(cleaned)
    except re.error as error:
        raise ValueError(f"{regex!r} is no regular expression of topic names: {error}") from None
    return cleaned

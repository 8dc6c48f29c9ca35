"""Selects records by key, value, header, or an expression. Pure.

An expression is that of ``ottla consume --filter`` without regular expressions: some of them take
hours for a short text and would block all visitors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.console.views.asked import BadRequest
from ottla.client.console.views.formats import JSON_BYTES_MAX
from ottla.client.records.filter_expression import FilterLimits, record_filter
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.console.views.asked import Question
    from ottla.client.records.filter_expression import FilteredRecord

LIMITS = FilterLimits(allows_patterns=False, characters_max=1_000, json_bytes_max=JSON_BYTES_MAX)


class RecordFilter(NamedTuple):
    """Conditions of shown records; an empty condition lets every record pass."""

    key: bytes = b""
    value: bytes = b""
    header_name: str = ""
    header_value: bytes | None = None
    expression: Callable[[FilteredRecord], bool] | None = None

    def passes(self, record: FilteredRecord) -> bool:
        """Whether the record meets all conditions."""
        if self.key and (record.key is None or self.key not in record.key):
            return False
        if self.value and (record.value is None or self.value not in record.value):
            return False
        if self.header_name and not any(
            name == self.header_name and self.header_value in (None, value)
            for name, value in record.headers
        ):
            return False
        try:
            return self.expression is None or self.expression(record)
        except RecursionError:
            # Two JSON values that are nested too deeply to be compared.
            return False


EVERY_RECORD = RecordFilter()


def read_filter(question: Question) -> RecordFilter:
    """Return the filter from a page's parameters. Raises BadRequest."""
    name, equals, value = question.text("header").partition("=")
    return RecordFilter(
        question.text("key").encode(),
        question.text("value").encode(),
        name,
        value.encode() if equals else None,
        read_expression(question.text("filter")),
    )


def read_expression(text: str) -> Callable[[FilteredRecord], bool] | None:
    """Return an expression as a function; None for an empty one. Raises BadRequest."""
    if not text:
        return None
    try:
        return record_filter(text, LIMITS)
    except ValueError as error:
        raise BadRequest(f"the filter cannot be read: {error}") from None

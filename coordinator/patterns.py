"""Compiles regular expressions of clients with RE2.

Its time is linear in the text for every expression, so no client can block a broker with one;
``re`` does not guarantee that. Kafka's broker uses the same language and matches whole names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

# Bounds what one expression may cost in memory; RE2's own default.
MEMORY_BYTES_MAX = 8 << 20


def compile_pattern(expression: str) -> Callable[[str], bool]:
    """A predicate for whole names. Raises ValueError for an invalid RE2 expression."""
    options = re2.Options()
    # RE2 would write to the standard error what the client gets anyway.
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        pattern = re2.compile(expression, options=options)
    except re2.error as error:
        raise ValueError(str(error)) from None
    return lambda name: pattern.fullmatch(name) is not None

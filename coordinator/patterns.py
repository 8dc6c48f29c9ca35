"""Regular expressions that come from clients, by RE2.

Its time is linear in the text whatever the expression, so a client cannot stop a broker with one;
``re`` gives no such promise. Kafka's broker uses the same language, and matches whole names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Callable

# Bounds what one expression may cost in memory; RE2's own default.
MEMORY_BYTES_MAX = 8 << 20


def compile_pattern(expression: str) -> Callable[[str], bool]:
    """Whether a name as a whole matches. Raises ValueError for what is no RE2 expression."""
    options = re2.Options()
    # RE2 would write to the standard error what the client is told anyway.
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    try:
        pattern = re2.compile(expression, options=options)
    except re2.error as error:
        raise ValueError(str(error)) from None
    return lambda name: pattern.fullmatch(name) is not None

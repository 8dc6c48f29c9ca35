"""A value that must not be shown: a password, a token, a key.

``repr``, ``str`` and ``format`` give stars, so that neither a log line nor an error, a traceback or
a DescribeConfigs response can contain it. Only ``reveal`` returns the value.
"""

from __future__ import annotations

import hmac
from typing import NoReturn

_STARS = "***"


class Secret:
    """Compares in constant time, is not pickled, and has no ``__dict__``.

    Args:
        value: The text to hide.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself: for the bytes that go to the peer, and for nothing that is shown."""
        return self._value

    def __repr__(self) -> str:
        return _STARS

    def __str__(self) -> str:
        return _STARS

    def __format__(self, format_spec: str) -> str:
        return format(_STARS, format_spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(("secret", self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")

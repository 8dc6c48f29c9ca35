"""Maps a group id or transactional id to its partition of the internal topic."""

from __future__ import annotations

_HASH_MODULUS = 1 << 32
_INT32_LIMIT = 1 << 31


def partition_for(key: str, partition_count: int) -> int:
    """The internal partition of a group or transactional id: Java's string hash, made positive.

    The hash goes over UTF-16 units, and its smallest value counts as 0, as in every Kafka."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) % _HASH_MODULUS
    if value >= _INT32_LIMIT:
        value = 0 if value == _INT32_LIMIT else _HASH_MODULUS - value
    return value % partition_count

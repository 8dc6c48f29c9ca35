"""CRC-32C (Castagnoli), the checksum of record batches and of producer snapshots.

The fastest implementation that can be imported is chosen once: our own where the processor has
the instructions for it (twice to three times as fast as the next), the ``crc32c`` package (tens of
gigabytes per second, takes views), then ``google-crc32c`` (as fast, but copies views), then
``crcmod``, then a table, which is right and far too slow for a busy broker. The first is left out
where ``OTTLA_PURE=1`` is set.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
from typing import TYPE_CHECKING, Protocol

from ottla.protocol.records.preference import may_be_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.protocol.ports import Buffer


class Checksum(Protocol):
    """``crc32c(data)``, or the checksum of more data after a part whose checksum is ``value``."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


COMPILED_NAME = "ottla.protocol.records.compiled_checksum"

_REVERSED_POLYNOMIAL = 0x82F63B78


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_REVERSED_POLYNOMIAL if index & 1 else 0)
    return index


_TABLE = tuple(_table_entry(index) for index in range(256))


def _from_table(data: Buffer, value: int = 0, /) -> int:
    """One table look-up per byte, about 16 MB/s."""
    table = _TABLE
    crc = value ^ 0xFFFFFFFF
    for byte in memoryview(data):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _load_compiled() -> Checksum:
    if not may_be_compiled():
        raise ImportError("the environment wants nothing compiled of ours")
    checksum: Checksum = importlib.import_module(COMPILED_NAME).crc32c
    return checksum


def _load_crc32c() -> Checksum:
    """The package itself imports its command line and the metadata of all distributions, a tenth
    of a broker's start; its extension alone is loaded where it lies where it always has."""
    package = importlib.util.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = importlib.machinery.PathFinder.find_spec("crc32c._crc32c", places) if places else None
    if spec is None or spec.loader is None:
        module = importlib.import_module("crc32c")
    else:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    checksum: Checksum = module.crc32c
    return checksum


def _load_google_crc32c() -> Checksum:
    module = importlib.import_module("google_crc32c")
    if module.implementation != "c":
        raise ImportError("google_crc32c works without its C extension here, slower than crcmod")
    extend: Callable[[int, bytes], int] = module.extend

    def checksum(data: Buffer, value: int = 0, /) -> int:
        # It refuses views and bytearrays, so this is the one choice that copies.
        return extend(value, data if isinstance(data, bytes) else bytes(data))

    return checksum


def _load_crcmod() -> Checksum:
    predefined = importlib.import_module("crcmod.predefined")
    checksum: Checksum = predefined.mkPredefinedCrcFun("crc-32c")
    return checksum


def implementations() -> Iterator[tuple[str, Checksum]]:
    """Every implementation that works here, best first."""
    for name, load in (
        ("compiled", _load_compiled),
        ("crc32c", _load_crc32c),
        ("google_crc32c", _load_google_crc32c),
        ("crcmod", _load_crcmod),
    ):
        try:
            yield name, load()
        except (ImportError, AttributeError):
            continue
    yield "table", _from_table


implementation, crc32c = next(implementations())
"""The name of the chosen implementation, for diagnostics, and the checksum function itself."""

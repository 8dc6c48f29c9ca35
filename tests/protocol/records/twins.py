"""Both record codecs, as far as they are here, and what makes their answers comparable."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import sysconfig
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import KafkaError
from ottla.protocol.records import codec_pure
from ottla.protocol.records.codec import COMPILED_NAME
from ottla.protocol.records.columns import BytesColumn, Columns
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.records.codec import Twin

PURE: Twin = codec_pure
EXTENSIONS = (
    "compiled_checksum",
    "compiled_encoding",
    "compiled_rows",
    "compiled_columns",
    "compiled_survey",
    "compiled_straight",
)


def _load() -> Twin | None:
    try:
        twin: Twin = importlib.import_module(COMPILED_NAME)
    except ImportError:
        return None
    return twin


COMPILED = _load()


def exact(content: bytes) -> memoryview:
    """The content in a buffer of its size: ``bytes`` have one more, which hides a read past the end
    from the sanitizers (test_sanitizers.py)."""
    return memoryview((ctypes.c_ubyte * len(content)).from_buffer_copy(content)).cast("B")


def has_compiler() -> bool:
    """Whether an installation here would have built the extension."""
    command = (sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return shutil.which(command) is not None and header.exists()


def compiled_or_say_why() -> Twin:
    """The compiled twin. Fails where it is missing though it could have been built, and says by
    skipping what was not tested where it could not."""
    if COMPILED is not None:
        return COMPILED
    if has_compiler():
        pytest.fail("there is a C compiler, yet no compiled record codec: install again (make)")
    pytest.skip("only the pure twin of the record codec was tested: there is no C compiler here")


TWINS = [
    pytest.param(PURE, id="pure"),
    *([pytest.param(COMPILED, id="compiled")] if COMPILED is not None else []),
]


def source_crc(name: str) -> int:
    """Of the text of an extension as it is in this tree, and of what it may share with others."""
    folder = ROOT / "protocol" / "records"
    paths = [folder / f"{name}.pyx", *sorted(folder.glob("*.pxd"))]
    return zlib.crc32(b"".join(path.read_bytes() for path in paths))


Outcome = tuple[object, ...]


def outcome(work: Callable[..., object], *arguments: Any) -> Outcome:
    """What a call gives or raises, comparable byte for byte and error code for error code."""
    try:
        found = work(*arguments)
    except KafkaError as error:
        return ("KafkaError", error.code)
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        # UnicodeEncodeError is a ValueError, and callers do not tell its kinds apart.
        kinds = (ValueError, TypeError, OverflowError, AttributeError)
        return (next(kind.__name__ for kind in kinds if isinstance(error, kind)),)
    return ("found", raw(found) if isinstance(found, Columns) else found)


def raw(columns: Columns) -> Outcome:
    """All bytes of columns, for comparison down to the last bit."""
    return (
        columns.count,
        columns.offsets,
        columns.timestamps,
        columns.keys,
        columns.values,
        columns.headers,
        type(columns.keys) is BytesColumn,
    )

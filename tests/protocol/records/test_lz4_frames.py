"""Frame headers get the checksum that the LZ4 library itself would have written."""

from __future__ import annotations

import importlib

import pytest

from ottla.protocol.records.lz4_frames import with_right_header_checksum


@pytest.mark.parametrize("size_bytes", [0, 1, 100_000])
@pytest.mark.parametrize("is_size_stored", [False, True])
def test_header_checksums_are_those_of_the_library(size_bytes: int, is_size_stored: bool) -> None:
    """Whatever stood there before, and the rest untouched."""
    library = importlib.import_module("lz4.frame")
    frame: bytes = library.compress(bytes(size_bytes), store_size=is_size_stored)
    place = 14 if is_size_stored and size_bytes else 6
    broken = bytearray(frame)
    broken[place] ^= 0xFF

    assert with_right_header_checksum(memoryview(broken)) == frame
    assert with_right_header_checksum(memoryview(frame)) == frame


@pytest.mark.parametrize("data", [b"", b"\x04", b"\x04\x22\x4d\x18\x68\x40", bytes(30)])
def test_what_is_no_lz4_frame_stays_as_it_is(data: bytes) -> None:
    """The codec refuses it with its own words."""
    assert with_right_header_checksum(memoryview(data)) == data

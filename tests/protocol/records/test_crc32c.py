"""All implementations of the checksum agree with one another and with the published vectors."""

from __future__ import annotations

import crcmod.predefined
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.records.crc32c import crc32c, implementation, implementations
from tests.protocol.records.samples import quick

ORACLE = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
ALL = dict(implementations())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_vectors(name: str, data: bytes, expected: int) -> None:
    """A wrong checksum makes every batch corrupt to all other implementations."""
    assert ALL[name](data) == expected


@pytest.mark.parametrize("name", ALL)
@quick
@given(data=st.binary(max_size=600), split=st.integers(0, 600))
def test_parity_with_the_oracle_whole_and_in_parts(name: str, data: bytes, split: int) -> None:
    """Header and payload are checksummed one after the other, on views without copies."""
    checksum = ALL[name]
    view = memoryview(bytearray(data))

    assert checksum(view) == ORACLE(data)
    assert checksum(view[split:], checksum(view[:split])) == ORACLE(data)


@pytest.mark.parametrize("name", ALL)
@quick
@given(size=st.integers(0, 3000), start=st.integers(0, 70), octet=st.integers(0, 255))
def test_parity_with_the_oracle_beyond_whole_steps(
    name: str, size: int, start: int, octet: int
) -> None:
    """What takes many bytes at a time has a rest before, between and after its steps."""
    data = bytes((octet + number * number) % 256 for number in range(start + size))[start:]

    assert ALL[name](data) == ORACLE(data)
    assert ALL[name](data, 0x89ABCDEF) == ORACLE(data, 0x89ABCDEF)


def test_our_own_is_left_out_where_nothing_of_ours_is_to_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``OTTLA_PURE=1`` must show what happens where there is no compiler."""
    monkeypatch.setenv("OTTLA_PURE", "1")

    assert "compiled" not in dict(implementations())


def test_the_fastest_one_present_is_chosen() -> None:
    """The table costs 2000 times as much: it must never win by accident."""
    assert implementation == next(iter(ALL))
    assert implementation in ("compiled", "crc32c")
    assert crc32c(b"123456789") == 0xE3069283
    assert list(ALL)[-1] == "table"

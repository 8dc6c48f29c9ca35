"""Forms of keys and values in ``-f``, and the format of ``produce -f``."""

from __future__ import annotations

import pytest

from ottla.client.cli.records.encodings import decoder, encoder
from ottla.client.cli.records.line_format import line_format
from ottla.client.cli.records.parsed_records import Outgoing
from ottla.client.cli.run import CommandError, UsageError


@pytest.mark.parametrize(
    ("form", "data", "text"),
    [
        ("hex", b"\x00\xffa", b"00ff61"),
        ("base64", b"\x00\xffa", b"AP9h"),
        ("pack:I", b"\x00\x00\x01\x02", b"258"),
        ("pack:<I", b"\x02\x01\x00\x00", b"258"),
        ("pack:>bBhHqQc$", b"\xff\xff" + b"\xff" * 4 + b"\xff" * 16 + b"z", None),
        ("pack:>Is", b"\x00\x00\x00\x07rest of it", b"7 rest of it"),
        ("pack:s", b"all", b"all"),
    ],
)
def test_a_form_is_written_and_read_back(form: str, data: bytes, text: bytes | None) -> None:
    """What consume writes, produce reads."""
    written = encoder(form)(data)

    assert text is None or written == text
    assert decoder(form)(written) == data


@pytest.mark.parametrize("form", ["", "hexx", "pack", "pack:", "pack:x", "pack:sI", "pack:$I"])
def test_an_unknown_form_is_refused(form: str) -> None:
    """The error lists the forms."""
    for make in (encoder, decoder):
        with pytest.raises(ValueError, match="is no form of a key or value: there are hex"):
            make(form)


def test_data_that_does_not_fit_is_refused() -> None:
    """A number from too few bytes would be wrong, and one beyond its size cannot be sent."""
    with pytest.raises(ValueError, match="fewer"):
        encoder("pack:I")(b"abc")
    with pytest.raises(ValueError, match="more"):
        encoder("pack:I$")(b"abcde")
    for form, text, error in (
        ("pack:B", b"256", "255"),
        ("pack:BB", b"1", "has 2 fields, not 1"),
        ("pack:B", b"x", "invalid literal"),
        ("hex", b"0", "non-hexadecimal"),
        ("base64", b"a", "base64"),
    ):
        with pytest.raises(ValueError, match=error):
            decoder(form)(text)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (r"%k\t%v\n", b"a\tb\tc", Outgoing(b"a", b"b\tc")),
        ("%v", b"a b", Outgoing(None, b"a b")),
        ("%k{hex} %v{base64}", b"00ff AP9h", Outgoing(b"\0\xff", b"\0\xffa")),
        ("%p %T %v", b"2 1700 x y", Outgoing(None, b"x y", (), 2, 1700)),
        (
            "%t-%p@%o %h|%v",
            b"orders-1@7 a=1,b=|v",
            Outgoing(None, b"v", (("a", b"1"), ("b", b"")), 1),
        ),
        ("%k%%%v", b"a%b", Outgoing(b"a", b"b")),
    ],
)
def test_a_line_is_read_by_its_format(text: str, line: bytes, expected: Outgoing) -> None:
    """The text between two fields divides them where it is found first."""
    assert line_format(text).parse(line) == expected


def test_the_last_text_ends_a_record() -> None:
    """Without it a record is a line."""
    assert line_format("%k:%v||").delimiter == b"||"
    assert line_format("%v").delimiter == b"\n"
    assert line_format("%v", (("h", b"1"),)).parse(b"x").headers == (("h", b"1"),)


@pytest.mark.parametrize(
    "text", ["", "no field", "x%v", "%k%v", "%z", "%v\\", "%p{hex} %v", r"\q%v"]
)
def test_a_format_that_cannot_be_read_is_refused(text: str) -> None:
    """Status 2 before a record is sent."""
    with pytest.raises(UsageError):
        line_format(text)


@pytest.mark.parametrize("line", [b"no tab", b"zz\tb"])
def test_a_line_of_another_form_is_refused(line: bytes) -> None:
    """It is not sent as some other record."""
    with pytest.raises(CommandError, match="this line is not of the form of -f"):
        line_format(r"%k{hex}\t%v\n").parse(line)

"""Keys and values are shown as text, JSON or hex, and cut."""

from __future__ import annotations

import pytest

from ottla.client.console.views.asked import BadRequest
from ottla.client.console.views.formats import SHOWN_BYTES, SHOWN_BYTES_MAX, checked_format, shown


@pytest.mark.parametrize(
    ("content", "form", "text"),
    [
        (b"plain \xc3\xbc", "text", "plain ü"),
        (b'{"b":1,"a":[2]}', "json", '{\n  "b": 1,\n  "a": [\n    2\n  ]\n}'),
        (b'"only text"', "text", '"only text"'),
        (b"17", "text", "17"),
        (b"", "text", ""),
        (b"\x00\x01A", "hex", f"00000000  {'00 01 41':<47}  ..A"),
        (b"\xff\xfe", "hex", f"00000000  {'ff fe':<47}  .."),
        (b"{broken", "text", "{broken"),
    ],
)
def test_auto_finds_the_format(content: bytes, form: str, text: str) -> None:
    """A visitor should not have to know how a producer writes."""
    found = shown(content, "auto")

    assert (found["format"], found["text"]) == (form, text)
    assert found["size_bytes"] == len(content)


def test_null_is_not_an_empty_text() -> None:
    """A tombstone deletes its key; an empty value does not."""
    assert shown(None, "auto")["text"] is None
    assert shown(b"", "auto")["text"] == ""


def test_a_large_value_is_cut_and_says_so() -> None:
    """Ten megabytes in a table freeze a browser."""
    found = shown(b"x" * 10_000_000, "auto")

    assert len(found["text"]) == SHOWN_BYTES
    assert (found["is_cut"], found["size_bytes"]) == (True, 10_000_000)
    assert not shown(b"x" * SHOWN_BYTES, "auto")["is_cut"]


@pytest.mark.parametrize("size", range(SHOWN_BYTES - 4, SHOWN_BYTES + 4))
def test_a_cut_within_a_character_leaves_a_text(size: int) -> None:
    """It must not turn a long text into hex."""
    assert shown(b"x" * size + "€".encode() * 9, "auto")["format"] == "text"


def test_json_that_is_deeper_than_the_stack_is_text() -> None:
    """Any producer can send it."""
    content = b"[" * 4000

    assert shown(content, "auto")["format"] == "text"
    assert shown(b"[" + b"9" * 3000 + b"]", "json")["format"] in ("json", "text")


@pytest.mark.parametrize("size", [SHOWN_BYTES, SHOWN_BYTES_MAX])
def test_deep_json_does_not_become_a_thousand_times_as_long(size: int) -> None:
    """Any producer can send it, and an operator's page of it would take gigabytes."""
    deep = 450
    content = b"[" * deep + b"1," * ((size - 2 * deep) // 2 - 1) + b"1" + b"]" * deep
    found = shown(content, "auto", size)

    assert (found["format"], found["text"]) == ("text", content.decode())
    assert shown(b'{"a":[{"b":[1,2]}]}', "auto")["format"] == "json"


def test_another_format_is_refused() -> None:
    """With the list of those that there are."""
    assert checked_format("") == "auto"
    with pytest.raises(BadRequest, match="auto, text, json, hex"):
        checked_format("avro")

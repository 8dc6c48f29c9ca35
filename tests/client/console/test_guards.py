"""What the console refuses before it looks at a request."""

from __future__ import annotations

import pytest

from ottla.client.console.guards import is_own_host, is_own_origin, is_token

NAMES = {"console.example"}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:8080", "10.1.2.3", "console.example:80"],
)
def test_the_console_answers_under_its_own_names(host: str) -> None:
    """A numeric address cannot be rebound: no other site has it."""
    assert is_own_host(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1/evil",
        "[::1",
    ],
)
def test_the_console_answers_under_no_other_name(host: str) -> None:
    """The name of another site that was rebound to this address would make its pages ours."""
    assert not is_own_host(host, NAMES)


def test_a_form_comes_from_a_page_of_the_console() -> None:
    """A browser names the site whose page has sent the form."""
    host = "127.0.0.1:8080"

    assert is_own_origin("http://127.0.0.1:8080", "same-origin", host)
    assert is_own_origin("https://127.0.0.1:8080", None, host)
    assert is_own_origin(None, None, host)
    assert not is_own_origin("http://evil.example", None, host)
    assert not is_own_origin("http://127.0.0.1:9999", None, host)
    assert not is_own_origin("null", None, host)
    assert not is_own_origin(None, "cross-site", host)
    assert not is_own_origin("http://127.0.0.1:8080", "same-site", host)


def test_only_the_token_of_the_visit_is_accepted() -> None:
    """An empty token must not match a visit that has none."""
    assert is_token("abc", "abc")
    assert not is_token("abd", "abc")
    assert not is_token("", "")
    assert not is_token("ü", "abc")

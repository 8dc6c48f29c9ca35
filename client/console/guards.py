"""Which requests the console refuses before it looks at them, and the headers of answers. Pure.

A page of another site can make a visitor's browser send requests to the console. The console
answers only under names of its own, so that a name that was rebound to its address reaches
nothing; it changes things only for forms of its own pages.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection

LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})
# No script, style, picture or form target of any other site, and no frame around a page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer browsers would send our own forms with the origin null.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def host_of(header: str) -> str | None:
    """The name or address of a Host header, in lower case and without port; None if it is not
    one."""
    if not header or any(sign in header for sign in "/@?#\\ ,"):
        return None
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def is_own_host(header: str, names: Collection[str]) -> bool:
    """Whether the console answers under this Host header: under any numeric address, which no
    other site's name can stand for, under ``localhost`` and under the names that were allowed."""
    host = host_of(header)
    if host is None:
        return False
    if host in LOCAL_NAMES or host in names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_own_origin(origin: str | None, site: str | None, host: str) -> bool:
    """Whether a form was sent by a page of the console.

    Args:
        origin: The Origin header; None from browsers and programs that send none.
        site: The Sec-Fetch-Site header; None from those that send none.
        host: The Host header.
    """
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def is_token(given: str, expected: str) -> bool:
    """Whether a form has the token of its visit; takes the same time for every wrong one."""
    return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())

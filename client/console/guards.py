"""Decides which requests the console refuses at once, and sets response headers. Pure.

A page of another site can make a visitor's browser send requests to the console. The console
answers only under its own names, which prevents DNS rebinding; it makes changes only for forms of
its own pages.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection

LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})
# No scripts, styles, images or form targets of other sites, and no framing of a page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer browsers would send the console's own forms with the origin null.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def host_of(header: str) -> str | None:
    """Return the name or address of a Host header, in lower case and without port; None if
    invalid."""
    if not header or any(sign in header for sign in "/@?#\\ ,"):
        return None
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def is_own_host(header: str, names: Collection[str]) -> bool:
    """Whether the console answers under this Host header: under any numeric address, which cannot
    be the name of another site, under ``localhost`` and under the allowed names."""
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
    """Whether a page of the console has sent the form.

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
    """Whether a form has the token of its visit; the check takes the same time for every wrong
    token."""
    return bool(expected) and hmac.compare_digest(given.encode(), expected.encode())

"""A broker's HTTP pages, as a scraper and a probe read them."""

from __future__ import annotations

import asyncio
import re
from http.client import HTTPConnection
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.protocol.ports import Address

_LINE = re.compile(r"([a-z_]\w*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
TIMEOUT_S = 90


class Page(NamedTuple):
    """One answer."""

    status: int
    text: str


def read_page(address: Address, path: str) -> Page:
    """Ask as any HTTP client does. Raises OSError."""
    connection = HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Page(response.status, response.read().decode())
    finally:
        connection.close()


async def page(address: Address | None, path: str) -> Page:
    """The same from within an event loop that may be the server's own."""
    assert address is not None, "the broker shows nothing"
    return await asyncio.to_thread(read_page, address, path)


Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse_figures(text: str) -> Figures:
    """Every metric of a page by its name and labels; each occurs once, below its type."""
    found: Figures = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed, f"{name} comes twice"
            typed.add(name)
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        assert match is not None, line
        name = re.sub(r"_(bucket|sum|count)$", "", match[1])
        assert name in typed or match[1] in typed, line
        key = match[1], frozenset(_LABEL.findall(match[2] or ""))
        assert key not in found, line
        found[key] = float(match[3])
    return found


def figure(figures: Figures, name: str, **labels: str) -> float:
    """The one with exactly these labels. Raises KeyError."""
    return figures[name, frozenset(labels.items())]

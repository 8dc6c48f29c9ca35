"""Pure. Merges the metrics pages of all brokers of a machine into one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def merged(pages: Mapping[int, str]) -> Iterator[str]:
    """Return the lines of all pages by metric family; each sample gets the label ``broker``.

    Prometheus requires that a family is one block with one description."""
    heads: dict[str, str] = {}
    figures: dict[str, list[tuple[str, str]]] = {}
    for node_id, page in pages.items():
        label = f'broker="{node_id}"'
        for name, head, lines in _families(page):
            heads.setdefault(name, head)
            figures.setdefault(name, []).extend((label, line) for line in lines)
    for name, head in heads.items():
        yield head
        for label, line in figures[name]:
            yield _labelled(line, label)


def _families(page: str) -> Iterator[tuple[str, str, list[str]]]:
    """Name, description and figures of each family."""
    name, head, lines = "", "", list[str]()
    for line in page.splitlines():
        if line.startswith("# HELP "):
            if name:
                yield name, head, lines
            name, head, lines = line.split(" ", 3)[2], f"{line}\n", []
        elif line.startswith("#"):
            head += f"{line}\n"
        elif line:
            lines.append(line)
    if name:
        yield name, head, lines


def _labelled(line: str, label: str) -> str:
    within = line.find("{")
    if within >= 0 and within < line.find(" "):
        return f"{line[: within + 1]}{label},{line[within + 1 :]}\n"
    name, _, value = line.partition(" ")
    return f"{name}{{{label}}} {value}\n"


def status_lines(states: Iterable[tuple[int, str]]) -> list[str]:
    """Return for /healthz and /readyz each broker that is not serving, with the reason."""
    return [f"broker {node_id} is {state}\n" for node_id, state in states if state != "serving"]


def trouble_lines(troubles: Iterable[tuple[int, str]]) -> list[str]:
    """For the same pages: each broker with what is wrong with it."""
    return [f"broker {node_id}: {text}\n" for node_id, text in troubles]

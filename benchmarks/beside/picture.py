"""The ratios to Apache Kafka as a picture and a table: ``python -m benchmarks.beside.picture``.

Reads the results in benchmarks/results and writes docs/pictures/ratios.svg and the table in
docs/performance.md.
"""

from __future__ import annotations

import json
import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.beside.ratios import OWN, Row, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "pictures" / "ratios.svg"
PAGE = ROOT / "docs" / "performance.md"
NAMES = ("beside_kafka", "beside_kafka_replicated", "beside_kafka_growth")
BEGIN, END = "<!-- ratios: begin -->", "<!-- ratios: end -->"
WIDTH, ROW_HEIGHT, TOP, LABEL_WIDTH, RIGHT = 860, 18, 64, 420, 20
# The scale is logarithmic, from a tenth to a hundredfold; what is outside is drawn at its end.
LEAST, MOST = 0.1, 100.0
COLOURS = {"kafka_3.9.1": "older", "kafka_4.1.0": "newer"}
STYLE = """<style>
  .paper { fill: #ffffff } text { fill: #1f2328; font: 12px system-ui, sans-serif }
  .title { font-weight: 600; font-size: 15px } .even { stroke: #1f2328; stroke-width: 1.5 }
  .grid { stroke: #d0d7de } .older { fill: #0969da; stroke: #0969da }
  .newer { fill: #bc4c00; stroke: #bc4c00 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .even { stroke: #e6edf3 }
    .grid { stroke: #30363d } .older { fill: #58a6ff; stroke: #58a6ff }
    .newer { fill: #f0883e; stroke: #f0883e }
  }
</style>"""


def results(folder: Path = RESULTS) -> dict[str, float]:
    """The figures of all comparisons that have been run."""
    found: dict[str, float] = {}
    for name in NAMES:
        path = folder / f"{name}.json"
        if path.exists():
            found |= json.loads(path.read_text())["figures"]
    return found


def by_name(figures: Mapping[str, float]) -> dict[str, list[Row]]:
    """The ratios to the several Kafkas, by what was measured."""
    found: dict[str, list[Row]] = {}
    for row in rows(figures):
        found.setdefault(row.name, []).append(row)
    return found


def drawn(figures: Mapping[str, float]) -> str:
    """The picture: a dot for each ratio, a line from its lowest to its highest round."""
    named = by_name(figures)
    height = TOP + ROW_HEIGHT * len(named) + 16
    title = "Ottla beside Apache Kafka: right of 1, Ottla is ahead"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="20" y="24">{escape(title)}</text>',
        *_key(),
        *_grid(height),
    ]
    for number, (name, ratios) in enumerate(named.items()):
        y = TOP + ROW_HEIGHT * number + ROW_HEIGHT / 2
        parts.append(
            f'<text x="{LABEL_WIDTH - 12}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(_words(name))}</text>"
        )
        for shift, row in enumerate(ratios):
            parts += _mark(row, y + 5 * shift - 2.5 * (len(ratios) - 1))
    return "\n".join([*parts, "</svg>", ""])


def _key() -> Iterator[str]:
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = LABEL_WIDTH + 150 * number
        yield f'<circle class="{colour}" cx="{x}" cy="40" r="4"/>'
        yield f'<text x="{x + 10}" y="44">{escape(_words(name))}</text>'


def _grid(height: int) -> Iterator[str]:
    for value in (0.1, 1, 10, 100):
        x = _across(value)
        colour = "even" if value == 1 else "grid"
        yield f'<path class="{colour}" d="M{x:.1f} {TOP - 6} V{height - 10}"/>'
        yield f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="middle">{value:g}</text>'


def _mark(row: Row, y: float) -> Iterator[str]:
    colour = COLOURS.get(row.other, "older")
    low, high, at = _across(row.lowest), _across(row.highest), _across(row.ratio)
    yield f'<path class="{colour}" d="M{low:.1f} {y:.1f} H{high:.1f}"/>'
    yield f'<circle class="{colour}" cx="{at:.1f}" cy="{y:.1f}" r="2.5"/>'


def _across(ratio: float) -> float:
    share = math.log10(min(MOST, max(LEAST, ratio)) / LEAST) / math.log10(MOST / LEAST)
    return LABEL_WIDTH + share * (WIDTH - LABEL_WIDTH - RIGHT)


def _words(name: str) -> str:
    system, found, version = name.partition("kafka_")
    if found and not system:
        return f"Apache Kafka {version}"
    return name.replace("_", " ")


def table_lines(figures: Mapping[str, float]) -> Iterator[str]:
    """The table for the page: value of Ottla, then each Kafka's with the ratio and its spread."""
    named = by_name(figures)
    others = list(dict.fromkeys(row.other for ratios in named.values() for row in ratios))
    yield "| row | Ottla | " + " | ".join(map(_words, others)) + " |"
    yield "|---" * (2 + len(others)) + "|"
    for name, ratios in named.items():
        own = _short(figures[f"{name} {OWN}"])
        cells = [_cell(row, figures[f"{name} {row.other}"]) for row in ratios]
        yield f"| {_words(name)} | {own} | " + " | ".join(cells) + " |"


def _cell(row: Row, value: float) -> str:
    return f"{_short(value)} (**{row.ratio:.2f}**; {row.lowest:.2f} to {row.highest:.2f})"


def _short(value: float) -> str:
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def with_table(page: str, lines: Iterable[str]) -> str:
    """The page with these lines between its two marks. Raises ValueError without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return "\n".join([before + begin, *lines, end + after])


def main() -> None:
    """Write the picture and the table."""
    figures = results()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(figures))
    PAGE.write_text(with_table(PAGE.read_text(), table_lines(figures)))


if __name__ == "__main__":
    main()

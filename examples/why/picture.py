"""Small SVG pictures: bars, and lines over two axes. They are readable on light and dark pages."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 720
LABEL_WIDTH = 250
VALUE_WIDTH = 120
ROW_HEIGHT = 26
TOP = 46
PLOT_HEIGHT = 220
LEFT, RIGHT = 76, 24
# Each picture paints its own background: the page around it may differ from the system's scheme.
STYLE = """<style>
  .paper { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif }
  .title { font-weight: 600; font-size: 15px } .axis { stroke: #8c959f; stroke-width: 1 }
  .a { fill: #0969da; stroke: #0969da } .b { fill: #bc4c00; stroke: #bc4c00 }
  .c { fill: #1a7f37; stroke: #1a7f37 } .line { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .axis { stroke: #6e7681 }
    .a { fill: #58a6ff; stroke: #58a6ff } .b { fill: #f0883e; stroke: #f0883e }
    .c { fill: #3fb950; stroke: #3fb950 }
  }
</style>"""
COLOURS = "abc"


class Bar(NamedTuple):
    """One row: what it is, how long, the figure beside it, and the index of its colour."""

    label: str
    value: float
    figure: str
    colour: int = 0


class Line(NamedTuple):
    """One curve through its points."""

    name: str
    points: Sequence[tuple[float, float]]


def bar_chart(title: str, bars: Sequence[Bar], *, logarithmic: bool = False) -> str:
    """Horizontal bars from zero, or from a tenth of the smallest one on a logarithmic scale."""
    lengths = _logarithms(bars) if logarithmic else [bar.value for bar in bars]
    longest = max([*lengths, 0.0]) or 1.0
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    parts = []
    for row, (bar, length) in enumerate(zip(bars, lengths, strict=True)):
        y = TOP + row * ROW_HEIGHT
        width = max(1.0, room * max(0.0, length) / longest)
        parts += [
            _text(LABEL_WIDTH - 10, y + 16, bar.label, anchor="end"),
            f'<rect class="{_colour(bar.colour)}" x="{LABEL_WIDTH}" y="{y + 3}" '
            f'width="{width:.1f}" height="{ROW_HEIGHT - 8}" rx="2"/>',
            _text(LABEL_WIDTH + width + 8, y + 16, bar.figure),
        ]
    note = " (logarithmic scale)" if logarithmic else ""
    return _drawing(title + note, TOP + len(bars) * ROW_HEIGHT + 14, parts)


def _logarithms(bars: Sequence[Bar]) -> list[float]:
    floor = min((bar.value for bar in bars if bar.value > 0), default=1.0) / 10
    return [math.log10(bar.value / floor) if bar.value > 0 else 0.0 for bar in bars]


def line_chart(title: str, lines: Sequence[Line], x_name: str, y_name: str) -> str:
    """Curves over a horizontal axis from the first point to the last, and a vertical one from 0."""
    xs = [x for line in lines for x, _ in line.points]
    y_max = max([y for line in lines for _, y in line.points] + [0.0]) * 1.1 or 1.0
    x_min, x_max = min(xs), max(xs)
    bottom = TOP + PLOT_HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_min) / (x_max - x_min or 1.0)
        return LEFT + across * (WIDTH - LEFT - RIGHT), bottom - PLOT_HEIGHT * y / y_max

    parts = [
        f'<path class="axis line" d="M{LEFT} {TOP} V{bottom} H{WIDTH - RIGHT}"/>',
        _text(LEFT - 8, TOP + 10, _short(y_max), anchor="end"),
        _text(LEFT - 8, bottom, "0", anchor="end"),
        _text(LEFT, bottom + 18, _short(x_min), anchor="middle"),
        _text(WIDTH - RIGHT, bottom + 18, _short(x_max), anchor="end"),
        _text((LEFT + WIDTH - RIGHT) / 2, bottom + 18, x_name, anchor="middle"),
        _text(LEFT + 8, TOP + 2, y_name),
    ]
    for index, line in enumerate(lines):
        places = [place(x, y) for x, y in line.points]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path class="{_colour(index)} line" style="fill:none" d="M{path}"/>')
        parts += [
            f'<circle class="{_colour(index)}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places
        ]
        y = bottom + 42 + index * 20
        key = f'x="{LEFT}" y="{y - 10}" width="14" height="8"'
        parts.append(f'<rect class="{_colour(index)}" {key}/>')
        parts.append(_text(LEFT + 22, y, line.name))
    return _drawing(title, bottom + 46 + len(lines) * 20, parts)


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _drawing(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label="{escape(title)}">'
    )
    paper = f'<rect class="paper" width="{WIDTH}" height="{height:.0f}" rx="6"/>'
    heading = f'<text class="title" x="20" y="26">{escape(title)}</text>'
    return "\n".join([head, STYLE, paper, heading, *parts, "</svg>", ""])

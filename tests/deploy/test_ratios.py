"""The comparison with Apache Kafka: its arithmetic, its picture, and the page that shows it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.beside import picture
from benchmarks.beside.ratios import Notes, Row, rows, table


def notes(rates: list[float], costs: list[float]) -> Notes:
    made = Notes()
    for rate, cost in zip(rates, costs, strict=True):
        made.rate("load_requests_per_second", rate)
        made.cost("load_us", cost)
    return made


SEEN = {
    "ottla": notes([200.0, 90.0, 300.0], [5.0, 10.0, 4.0]),
    "kafka_3.9.1": notes([100.0, 100.0, 100.0], [10.0, 5.0, 10.0]),
    "kafka_4.1.0": notes([400.0, 100.0, 100.0], [1.0, 10.0, 10.0]),
}


def test_a_ratio_above_1_means_that_ottla_is_ahead_for_rates_and_for_costs() -> None:
    """Readers take one direction for all rows."""
    figures = table(SEEN)
    assert figures["load_requests_per_second ratio to kafka_3.9.1"] == 2.0
    assert figures["load_us ratio to kafka_3.9.1"] == 2.0
    assert figures["load_us ottla"] == 5.0


def test_a_ratio_is_the_median_of_the_rounds_with_the_lowest_and_the_highest_beside_it() -> None:
    """Without the spread a noisy row looks like a result."""
    figures = table(SEEN)
    assert list(rows(figures)) == [
        Row("load_requests_per_second", "kafka_3.9.1", 2.0, 0.9, 3.0),
        Row("load_requests_per_second", "kafka_4.1.0", 0.9, 0.5, 3.0),
        Row("load_us", "kafka_3.9.1", 2.0, 0.5, 2.5),
        Row("load_us", "kafka_4.1.0", 1.0, 0.2, 2.5),
    ]


def test_equal_zeros_are_even_and_a_cost_of_zero_is_no_endless_lead() -> None:
    """A division by zero would end a run of ten minutes."""
    seen = {"ottla": notes([0.0], [0.0]), "kafka_3.9.1": notes([0.0], [2.0])}
    figures = table(seen)
    assert figures["load_requests_per_second ratio to kafka_3.9.1"] == 1.0
    assert figures["load_us ratio to kafka_3.9.1"] == 2000.0


def test_different_numbers_of_rounds_are_not_compared() -> None:
    """Rounds are compared in pairs: what disturbs one disturbs all of the same round."""
    seen = {"ottla": notes([1.0, 2.0], [1.0, 2.0]), "kafka_3.9.1": notes([1.0], [1.0])}
    with pytest.raises(AssertionError, match=r"kafka_3\.9\.1 has 1 rounds of load_requests"):
        table(seen)


def test_the_picture_has_a_dot_for_each_ratio_and_keeps_all_of_them_inside() -> None:
    """A ratio outside of the scale is drawn at its end."""
    figures = table({**SEEN, "kafka_4.1.0": notes([1e-9] * 3, [1e9] * 3)})
    drawing = ElementTree.fromstring(picture.drawn(figures))
    circles = [one for one in drawing.iter() if one.tag.endswith("circle")]
    dots = [one for one in circles if one.get("r") == "2.5"]
    assert len(dots) == 4
    assert all(picture.LABEL_WIDTH <= float(one.get("cx", "0")) <= picture.WIDTH for one in dots)


def test_the_table_shows_the_value_and_the_ratio_with_its_spread() -> None:
    """The table has the same figures as the picture."""
    lines = list(picture.table_lines(table(SEEN)))
    assert lines[0] == "| row | Ottla | Apache Kafka 3.9.1 | Apache Kafka 4.1.0 |"
    assert "| load us | 5 | 10 (**2.00**; 0.50 to 2.50) | 10 (**1.00**; 0.20 to 2.50) |" in lines


def test_page_and_picture_show_the_kept_results() -> None:
    """Write them with ``python -m benchmarks.beside.picture``."""
    figures = picture.results()
    assert figures, "no comparison has been run"
    page = picture.PAGE.read_text()
    assert picture.with_table(page, picture.table_lines(figures)) == page
    assert picture.drawn(figures) == picture.PICTURE.read_text()


def test_a_page_without_the_marks_is_refused() -> None:
    """Otherwise the table would silently not be written."""
    with pytest.raises(ValueError, match="the page lacks"):
        picture.with_table("no marks", [])

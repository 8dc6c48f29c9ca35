"""Our broker answers what Apache Kafka has answered, but for what docs/differences.md tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.answers.accepted import ACCEPTED
from tests.answers.asking import SETTINGS, Answers, ask_all, differences, recorded
from tests.support.in_process import running_broker

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"
VERSIONS = ("3.9.1", "4.1.0")


@pytest.mark.timeout(600)
async def test_every_answer_is_one_of_kafkas_or_told_in_the_list_of_differences() -> None:
    """Where the two Kafkas differ, one of them is right enough."""
    async with running_broker(SETTINGS) as running:
        ours = await ask_all(running.connect)
    kafkas = [recorded(version) for version in VERSIONS]

    used: set[int] = set()
    unexplained = [line for name in ours for line in _unexplained(name, ours, kafkas, used)]

    assert unexplained == []
    assert [set(kafka) for kafka in kafkas] == [set(ours)] * len(kafkas)
    # What has been mended since is taken from the list, and from the page.
    assert used == set(range(len(ACCEPTED)))


def test_every_accepted_difference_has_an_entry() -> None:
    """Of twenty-five at most, each with what is sent, answered there, answered here, and why."""
    text = DIFFERENCES.read_text("utf-8")
    entries = {int(number) for number in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)}

    assert entries == set(range(1, len(entries) + 1))
    assert len(entries) <= 25
    assert {one.entry for one in ACCEPTED} <= entries
    assert text.count("*Why:*") == len(entries)


def _unexplained(name: str, ours: Answers, kafkas: list[Answers], used: set[int]) -> list[str]:
    """What is wrong with one answer, as it differs from the Kafka that is nearest to it."""
    if any(kafka[name] == ours[name] for kafka in kafkas):
        return []
    worst: list[list[str]] = []
    for kafka in kafkas:
        found = []
        explained = set()
        for field, theirs, mine in differences(kafka[name], ours[name]):
            by = [
                index for index, one in enumerate(ACCEPTED) if one.covers(name, field, theirs, mine)
            ]
            explained.update(by[:1])
            if not by:
                found.append(f"{name}: {field}: Kafka {theirs!r}, here {mine!r}")
        worst.append(found)
        if not found:
            used |= explained
    return min(worst, key=len)

"""Mutated frames are read or refused, and the fuzzer that says so can itself fail."""

from __future__ import annotations

import pytest

from ottla.protocol.apis import ApiKey
from tests.protocol.fuzzing import FrameFuzzer, FuzzReport
from tests.support.golden import GoldenFrame, golden_frames

QUICK_FRAMES = 20_000
SOAK_FRAMES = 1_000_000


def _check(report: FuzzReport, frames: int) -> None:
    assert report.executions == frames
    assert report.accepted + report.refused == frames
    assert report.accepted > frames // 20
    assert report.refused > frames // 20


def test_mutated_frames_are_read_or_refused() -> None:
    """Any byte a stranger sends is a message or a reason to close, never a crash (hazard N-03)."""
    report = FrameFuzzer(seed=1).run(QUICK_FRAMES)

    _check(report, QUICK_FRAMES)
    assert len(report.versions) > 200


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [2])
def test_a_million_mutated_frames_are_read_or_refused(seed: int) -> None:
    """Rare paths, such as tags inside structs inside arrays, need more tries than a quick run."""
    report = FrameFuzzer(seed).run(SOAK_FRAMES)

    _check(report, SOAK_FRAMES)


def test_a_seed_gives_the_same_frames_again() -> None:
    """A failure is repeated by its seed alone."""
    golden = golden_frames()[0]

    first, again = FrameFuzzer(7), FrameFuzzer(7)

    assert [first.mutated(golden.frame) for _ in range(50)] == [
        again.mutated(golden.frame) for _ in range(50)
    ]


class CrashingFuzzer(FrameFuzzer):
    """Reads frames with a decoder that has a bug."""

    def read(self, golden: GoldenFrame, frame: memoryview) -> None:
        raise IndexError("out of range")


def test_a_reader_that_crashes_is_reported_with_its_frame() -> None:
    """A fuzzer that swallows failures would find none."""
    with pytest.raises(AssertionError, match=r"(?s)fuzzing 3 1\n[0-9a-f]+.*out of range"):
        CrashingFuzzer(3).run(1)


def test_every_seed_frame_is_read_unmutated() -> None:
    """Mutations of frames that are wrong to begin with reach nothing."""
    fuzzer = FrameFuzzer(1)
    for golden in golden_frames():
        fuzzer.execute(golden, golden.frame)

    assert fuzzer.report.refused == 0
    assert ApiKey.PRODUCE in {key for key, _ in fuzzer.report.versions}

"""The oracles of groups: who owns what, what is committed, and that no record is skipped.

Ownership over time and epochs are checked in ownership.py.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.groups.evidence import Outcome
from tests.simulation.groups.ownership import epochs_that_went_back, overlapping_claims

if TYPE_CHECKING:
    from tests.simulation.groups.evidence import Commit, Fetched, GroupEvidence
    from tests.simulation.history import Partition

NEVER = 1 << 62


def judge_groups(evidence: GroupEvidence) -> list[str]:
    """Violations in words."""
    return [
        *_owned_twice(evidence),
        *overlapping_claims(evidence),
        *epochs_that_went_back(evidence),
        *_commits(evidence),
        *_zombies(evidence),
        *_missed(evidence),
    ]


def _owned_twice(evidence: GroupEvidence) -> list[str]:
    """Within one generation each partition has one owner; two would work on the same records."""
    found = []
    owners: dict[tuple[str, int, int, Partition], str] = {}
    for one in evidence.owned:
        era = evidence.last_loss(one.answered)
        if era > one.asked:
            continue
        for partition in one.partitions:
            key = (one.group, era, one.generation, partition)
            owner = owners.setdefault(key, one.owner)
            if owner != one.owner:
                found.append(
                    f"groups: {partition} belongs to {owner} and to {one.owner} in generation "
                    f"{one.generation} of {one.group}"
                )
    return found


def _commits(evidence: GroupEvidence) -> list[str]:
    """Each answer is explained by a commit that no later acknowledged one has replaced.

    A commit whose answer was lost may take effect at any time until its generation is over, which
    is certain once a later generation has been handed its assignment."""
    commits: dict[tuple[str, Partition], list[Commit]] = defaultdict(list)
    for commit in evidence.commits:
        if commit.outcome is not Outcome.REFUSED:
            commits[commit.group, commit.partition].append(commit)
    found = []
    for fetched in evidence.fetched:
        since = evidence.last_loss(fetched.answered)
        told = [c for c in commits[fetched.group, fetched.partition] if c.asked < fetched.answered]
        # What it cannot be older than: acknowledged before the question, not lost since.
        settled = [
            c.asked
            for c in told
            if c.outcome is Outcome.ACKNOWLEDGED and c.answered < fetched.asked and c.asked > since
        ]
        if not _explained(evidence, fetched, told, max(settled, default=-1)):
            last = max((c for c in told if c.answered), key=lambda c: c.answered, default=None)
            found.append(
                f"groups: {fetched.group} has {fetched.offset} for {fetched.partition}, "
                f"last acknowledged was {None if last is None else last.offset}"
            )
    return found


def _explained(
    evidence: GroupEvidence, fetched: Fetched, told: list[Commit], settled_asked: int
) -> bool:
    if fetched.offset == -1:
        return settled_asked == -1
    return any(
        commit.offset == fetched.offset and _end(evidence, commit) >= settled_asked
        for commit in told
    )


def _end(evidence: GroupEvidence, commit: Commit) -> int:
    """The latest moment at which the commit can have taken effect."""
    if commit.outcome is Outcome.ACKNOWLEDGED:
        return commit.answered
    if any(loss > commit.asked for loss in evidence.losses()):
        # The group may be back in an older generation.
        return NEVER
    return _generation_end(evidence, commit)


def _generation_end(evidence: GroupEvidence, commit: Commit) -> int:
    """When it was certain that the commit comes too late."""
    if commit.group in evidence.consumer_groups | evidence.mixed_groups:
        return _epoch_end(evidence, commit)
    since = evidence.last_loss(commit.asked)
    later = (
        one.answered
        for one in evidence.owned
        if one.group == commit.group and one.generation > commit.generation and one.asked > since
    )
    return min(later, default=NEVER)


def _epoch_end(evidence: GroupEvidence, commit: Commit) -> int:
    """Here each member has its own epoch. It ends when the member gets another one, or when another
    member was given the partition."""
    since = evidence.last_loss(commit.asked)
    ends = [
        told.answered
        for told in evidence.told
        if told.membership == commit.membership
        and told.epoch > commit.generation
        and told.asked > since
    ]
    if commit.held_since is not None:
        held_since = max(commit.held_since, since)
        ends += [
            claim.taken
            for claim in evidence.claims.all
            if (claim.owner.group, claim.partition) == (commit.group, commit.partition)
            and claim.owner.member_id != commit.member_id
            and claim.asked > held_since
        ]
    return min(ends, default=NEVER)


def _zombies(evidence: GroupEvidence) -> list[str]:
    """A member that slept through a rebalance must not commit any more (KIP-62)."""
    return [
        f"groups: {commit.group} took a commit of generation {commit.generation} after its end"
        for commit in evidence.commits
        if commit.outcome is Outcome.ACKNOWLEDGED
        and _generation_end(evidence, commit) < commit.asked
        and evidence.last_loss(commit.answered) < commit.asked
    ]


def _missed(evidence: GroupEvidence) -> list[str]:
    """Each record that is there at the end was shown to each group, at least once."""
    history = evidence.history
    found = []
    for group in sorted({group for group, _ in evidence.seen}):
        for partition, final in sorted(history.finals.items()):
            seen = evidence.seen.get((group, partition), set())
            missed = [
                offset
                for offset, value in final.records
                if (offset, value) not in seen
                and not _was_skipped(evidence, group, partition, offset)
            ]
            if missed:
                found.append(f"groups: {group} was never shown {partition} {missed[:5]}")
    return found


def _was_skipped(evidence: GroupEvidence, group: str, partition: Partition, offset: int) -> bool:
    """A loss of power took records that the group had already read or committed, and later ones
    have their offsets: no group can know. Members that keep a partition keep their position."""
    losses = evidence.history.losses
    if losses and any(one == offset for one, _ in evidence.seen.get((group, partition), ())):
        return True
    for loss in losses:
        end = loss.durable_ends.get(partition, 0)
        reach = max(
            (
                commit.offset
                for commit in evidence.commits
                if (commit.group, commit.partition) == (group, partition)
                and commit.asked < loss.order
            ),
            default=0,
        )
        if end <= offset < reach:
            return True
    return False

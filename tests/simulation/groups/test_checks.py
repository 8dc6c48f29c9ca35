"""The oracles of groups themselves: each finds what it is for, and nothing in a clean story."""

from __future__ import annotations

from ottla.protocol.ids import TopicPartition
from tests.simulation.groups.assigning import share
from tests.simulation.groups.checks import judge_groups
from tests.simulation.groups.claims import Owner
from tests.simulation.groups.evidence import Commit, Fetched, GroupEvidence, Outcome, Owned, Told
from tests.simulation.history import FinalLog, History, Loss

P = TopicPartition("t", 0)
G = "group"
NEVER_S = 1e9


class Story(GroupEvidence):
    """Evidence that a test writes step by step."""

    def __init__(self, *, durable: bool = False) -> None:
        history = History()
        super().__init__(history, lambda: float(history.order), durable=durable)

    def owns(self, owner: str, generation: int) -> None:
        tick = self.history.tick
        self.owned.append(Owned(tick(), tick(), G, generation, owner, (P,)))

    def takes(self, member: str, lease_s: float = NEVER_S) -> None:
        asked = self.history.tick()
        self.claims.take(Owner(member, G, member), [P], asked, lease_s)

    def hears(self, member: str, epoch: int, membership: int, *, is_join: bool = False) -> None:
        tick = self.history.tick
        self.told.append(Told(tick(), tick(), G, member, membership, epoch, is_join))

    def commits_as(self, member: str, offset: int, epoch: int) -> None:
        since = self.claims.since(member, P)
        tick, outcome = self.history.tick, Outcome.ACKNOWLEDGED
        self.commits.append(Commit(tick(), G, epoch, P, offset, outcome, tick(), member, 1, since))

    def commits_at(
        self, offset: int, generation: int, outcome: Outcome = Outcome.ACKNOWLEDGED
    ) -> Commit:
        commit = Commit(self.history.tick(), G, generation, P, offset)
        self.commits.append(commit)
        if outcome is not Outcome.UNKNOWN:
            commit.settle(outcome, self.history.tick())
        return commit

    def is_told(self, offset: int) -> list[str]:
        self.fetched.append(Fetched(self.history.tick(), self.history.tick(), G, P, offset))
        return judge_groups(self)

    def loses_power(self, end: int = 0) -> None:
        self.history.losses.append(Loss(self.history.tick(), "power cut", {P: end}))
        self.on_loss()


def test_two_owners_in_one_generation_are_found() -> None:
    """They would do the same work twice, at the same time."""
    story = Story()
    story.owns("a", 1)
    story.owns("a", 1)
    story.owns("b", 2)
    assert judge_groups(story) == []
    story.owns("a", 2)
    assert len(judge_groups(story)) == 1


def test_a_group_that_lost_power_may_give_a_generation_again_unless_it_was_flushed() -> None:
    """Unflushed generations are not promised to survive a loss of power."""
    for durable, count in ((False, 0), (True, 1)):
        story = Story(durable=durable)
        story.owns("a", 1)
        story.loses_power()
        story.owns("b", 1)
        assert len(judge_groups(story)) == count


def test_an_acknowledged_commit_that_is_lost_or_goes_back_is_found() -> None:
    """The group would work on the same records again, or skip some."""
    story = Story()
    assert story.is_told(-1) == []
    story.commits_at(5, 1)
    assert story.is_told(5) == []
    story.commits_at(9, 1)
    assert len(story.is_told(5)) == 1
    assert len(Story.is_told(story, -1)) == 2
    assert len(story.is_told(7)) == 3


def test_a_commit_without_an_answer_may_come_late_but_not_after_its_generation() -> None:
    """A delayed request is valid until the group has moved to another generation."""
    story = Story()
    story.commits_at(5, 1, Outcome.UNKNOWN)
    story.commits_at(9, 1)
    assert story.is_told(9) == []
    assert story.is_told(5) == []
    story.owns("b", 2)
    story.commits_at(12, 2)
    assert len(story.is_told(5)) == 1


def test_refused_commits_explain_nothing() -> None:
    """No means no."""
    story = Story()
    story.commits_at(5, 1, Outcome.REFUSED)
    assert len(story.is_told(5)) == 1


def test_a_commit_of_a_generation_that_is_over_must_not_be_acknowledged() -> None:
    """A member that slept through a rebalance does not know who reads its partitions now."""
    story = Story()
    story.owns("a", 1)
    story.owns("b", 2)
    story.commits_at(5, 1)
    assert len(judge_groups(story)) == 1


def test_records_that_no_member_was_shown_are_found() -> None:
    """At least once is what groups promise."""
    story = Story()
    story.history.finals[P] = FinalLog(0, 3, [(0, b"a"), (1, b"b"), (2, b"c")])
    story.show(G, P, 0, b"a")
    story.show(G, P, 2, b"c")
    assert len(judge_groups(story)) == 1
    story.show(G, P, 1, b"another")
    assert len(judge_groups(story)) == 1
    story.show(G, P, 1, b"b")
    assert judge_groups(story) == []


def test_records_in_the_place_of_lost_ones_may_be_skipped() -> None:
    """The group has committed what the power took, and cannot know that others came there."""
    story = Story()
    story.commits_at(2, 1)
    story.loses_power(end=1)
    story.history.finals[P] = FinalLog(0, 3, [(0, b"a"), (1, b"new"), (2, b"c")])
    story.show(G, P, 0, b"a")
    story.show(G, P, 2, b"c")
    assert judge_groups(story) == []
    story.history.finals[P] = FinalLog(0, 4, [*story.history.finals[P].records, (3, b"d")])
    assert len(judge_groups(story)) == 1


def test_who_has_read_lost_records_goes_on_behind_them() -> None:
    """A member that keeps a partition keeps its position, also without a commit."""
    story = Story()
    for offset, value in ((0, b"a"), (1, b"lost")):
        story.show(G, P, offset, value)
    story.loses_power(end=1)
    story.history.finals[P] = FinalLog(0, 3, [(0, b"a"), (1, b"new"), (2, b"c")])
    assert len(judge_groups(story)) == 1
    story.show(G, P, 2, b"c")
    assert judge_groups(story) == []


def test_two_owners_at_the_same_time_are_found() -> None:
    """A partition is given up before it is taken up, whichever member reports first."""
    story = Story()
    story.takes("a")
    story.claims.drop("a", [P])
    story.takes("b")
    assert judge_groups(story) == []
    story.takes("c")
    assert len(judge_groups(story)) == 1


def test_who_was_silent_for_too_long_owns_nothing_that_counts() -> None:
    """The member may still believe to own it; the group has to continue without it."""
    for lease_s, count in ((3.0, 0), (NEVER_S, 1)):
        story = Story()
        story.takes("a", lease_s)
        story.history.tick()
        story.takes("b")
        assert len(judge_groups(story)) == count


def test_a_sign_of_life_extends_what_is_owned() -> None:
    """A broker that has answered knows that the member is there."""
    story = Story()
    story.takes("a", 3.0)
    story.claims.extend("a", NEVER_S)
    story.history.tick()
    story.takes("b")
    assert len(judge_groups(story)) == 1


def test_what_was_owned_before_a_loss_of_power_binds_no_member() -> None:
    """Unless the log was flushed before each answer."""
    for durable, count in ((False, 0), (True, 1)):
        story = Story(durable=durable)
        story.takes("a")
        story.loses_power()
        story.takes("b")
        assert len(judge_groups(story)) == count


def test_an_epoch_that_goes_back_is_found() -> None:
    """Within one membership, and in a group of KIP-848 alone over all who join."""
    story = Story()
    story.consumer_groups.add(G)
    story.hears("a", 3, 1, is_join=True)
    story.hears("a", 4, 1)
    story.hears("b", 4, 2, is_join=True)
    # It has not given a partition up, so it stays behind.
    story.hears("a", 4, 1)
    assert judge_groups(story) == []
    story.hears("a", 3, 1)
    assert len(judge_groups(story)) == 1
    story.hears("c", 3, 3, is_join=True)
    assert len(judge_groups(story)) == 2
    story.consumer_groups.clear()
    assert len(judge_groups(story)) == 1


def test_a_commit_of_a_member_that_has_lost_the_partition_must_not_be_acknowledged() -> None:
    """In groups of KIP-848 each member has an epoch, so it is owning that is compared."""
    for kinds in ("consumer_groups", "mixed_groups"):
        story = Story()
        getattr(story, kinds).add(G)
        story.takes("a", 2.0)
        story.commits_as("a", 5, 1)
        story.takes("b")
        story.commits_as("b", 7, 2)
        assert judge_groups(story) == []
        story.commits_as("a", 6, 1)
        assert len(judge_groups(story)) == 1


def test_cooperative_shares_are_even_and_wait_for_members_that_have_to_let_go() -> None:
    """The simulated assignor itself must not give anything to two."""
    partitions = [("t", number) for number in range(4)]
    shares = share({"a": set(partitions), "b": set()}, partitions)
    assert shares == {"a": {("t", 0), ("t", 1)}, "b": set()}
    shares = share({"a": shares["a"], "b": set()}, partitions)
    assert shares == {"a": {("t", 0), ("t", 1)}, "b": {("t", 2), ("t", 3)}}

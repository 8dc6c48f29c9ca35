"""Topics that come, go and grow, and expressions that match them."""

from __future__ import annotations

import pytest

from ottla.coordinator.patterns import compile_pattern
from ottla.protocol.errors import ErrorCode
from tests.coordinator.group.consumer.site import CALLER, Site, beat, join, told


def test_topic_that_grows_is_noticed_at_the_next_heartbeat() -> None:
    """New partitions are assigned without a member joining or leaving."""
    site = Site({"t": 2})
    site.ask(join("a"))

    site.set_topics({"t": 3})
    response = site.ask(beat("a", 1))

    assert (response.member_epoch, told(response)) == (2, {"t": [0, 1, 2]})


def test_topic_that_is_created_later_is_noticed() -> None:
    """Subscribing before the topic is there is common in tests and at first starts."""
    site = Site({"other": 1})
    assert told(site.ask(join("a", "t"))) == {}

    site.set_topics({"other": 1, "t": 1})

    assert told(site.ask(beat("a", 1))) == {"t": [0]}


def test_deleted_topic_is_taken_away() -> None:
    """Its partitions are gone; the member must not keep fetching them."""
    site = Site({"t": 2, "u": 1})
    site.ask(join("a", "t", "u"))
    site.set_topics({"t": 2})

    response = site.ask(beat("a", 1, {"t": [0, 1], "u": [0]}))

    assert told(response) == {"t": [0, 1]}
    assert site.ask(beat("a", 1, {"t": [0, 1]})).member_epoch == 2


def test_a_recreated_topic_is_another_topic() -> None:
    """The name is the same, the records are not (KIP-516)."""
    site = Site({"t": 2})
    site.ask(join("a"))
    site.set_topics({"t": 2}, incarnation=1)

    site.ask(beat("a", 1, {"t": [0, 1]}))
    response = site.ask(beat("a", 1, {}))

    assert response.assignment is not None
    assert [topic.topic_id[-1] for topic in response.assignment.topic_partitions] == [1]


def test_metadata_that_changes_elsewhere_is_no_rebalance() -> None:
    """Leaders move all the time; only changes of subscribed topics matter."""
    site = Site({"t": 2})
    site.ask(join("a"))
    appended = len(site.log)

    site.set_topics({"t": 2, "other": 5})

    assert site.ask(beat("a", 1)).member_epoch == 1
    assert len(site.log) == appended


def test_expression_matches_whole_names_of_topics_now_and_later() -> None:
    """Kafka's broker matches names as a whole; ``^t`` alone would match only a topic ``t``."""
    site = Site({"t-1": 1, "t-2": 1, "not-t-1": 1, "__consumer_offsets": 50})
    assert told(site.ask(join("a", regex="t-.*"))) == {"t-1": [0], "t-2": [0]}

    site.set_topics({"t-1": 1, "t-2": 1, "t-3": 1})

    assert told(site.ask(beat("a", 1))) == {"t-1": [0], "t-2": [0], "t-3": [0]}
    assert site.group.is_subscribed("t-3")
    assert not site.group.is_subscribed("not-t-1")


def test_internal_topics_are_never_matched() -> None:
    """A consumer that subscribes to ``.*`` does not mean the broker's own records."""
    site = Site({"t": 1, "__consumer_offsets": 50})

    assert told(site.ask(join("a", regex=".*"))) == {"t": [0]}


def test_an_expression_matches_topics_that_the_member_may_describe() -> None:
    """Topics that it cannot read are not assigned to it, and it does not learn their ids."""
    site = Site({"t-1": 1, "t-2": 1})
    limited = CALLER._replace(may_describe=lambda topic: topic != "t-2")
    assert told(site.ask(join("a", regex="t-.*"), limited)) == {"t-1": [0]}

    site.set_topics({"t-1": 1, "t-2": 1, "t-3": 1})

    assert told(site.ask(beat("a", 1), limited)) == {"t-1": [0], "t-3": [0]}
    assert not site.group.is_subscribed("t-2")


def test_expression_and_names_add_up() -> None:
    """KIP-848 allows both at once."""
    site = Site({"t": 1, "u": 1})

    assert told(site.ask(join("a", "u", regex="t"))) == {"t": [0], "u": [0]}


def test_an_unused_regular_expression_is_removed() -> None:
    """Each one is matched with every topic at every change of metadata."""
    site = Site({"t": 1, "u": 1})
    site.ask(join("a", regex="t"))
    request = beat("a", 1)
    request.subscribed_topic_regex = ""
    request.subscribed_topic_names = ["u"]

    site.ask(request)

    assert not site.group.state.regexes
    assert not site.reloaded().group.state.regexes


@pytest.mark.parametrize("regex", ["(", "a{1001}{1001}", r"(a)\1"])
def test_expression_that_is_none_is_refused(regex: str) -> None:
    """RE2 has no back references, and no counters that cost more than they should."""
    site = Site()

    assert site.ask(join("a", regex=regex)).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert site.group.is_void


def test_expression_cannot_stop_the_broker() -> None:
    """With backtracking this one takes longer than the universe."""
    assert not compile_pattern("(a*)*b")("a" * 249)


def test_changed_subscription_is_a_new_group_epoch() -> None:
    """Others may have to give partitions to, or take them from, the member."""
    site = Site({"t": 2, "u": 2})
    site.ask(join("a"))
    request = beat("a", 1)
    request.subscribed_topic_names = ["u", "t"]

    assert told(site.ask(request)) == {"t": [0, 1], "u": [0, 1]}
    assert site.group.state.group_epoch == 2
    request.member_epoch, request.subscribed_topic_names = 2, ["t", "u", "u"]
    assert site.ask(request).member_epoch == 2

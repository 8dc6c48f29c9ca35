"""Our consumer in one group with other libraries, led by either."""

from __future__ import annotations

import pytest

from tests.interop.support.crews import AIOKAFKA, CONFLUENT, OTTLA, OTTLA_COOPERATIVE, Crew, Kind
from tests.interop.support.load import Load

CONFLUENT_COOPERATIVE = CONFLUENT._replace(
    name="confluent-kafka-cooperative", strategy="cooperative-sticky"
)
MIXES = {
    # The member that joins first leads and assigns the partitions for all.
    "we lead, by range": [OTTLA, CONFLUENT, AIOKAFKA],
    "librdkafka leads, by range": [CONFLUENT, OTTLA, AIOKAFKA],
    "aiokafka leads, by range": [AIOKAFKA, OTTLA, CONFLUENT],
    "we lead, by round robin": [
        kind._replace(strategy="roundrobin") for kind in (OTTLA, CONFLUENT, AIOKAFKA)
    ],
    "aiokafka leads, by round robin": [
        kind._replace(strategy="roundrobin") for kind in (AIOKAFKA, OTTLA, CONFLUENT)
    ],
    "we lead, cooperatively": [OTTLA_COOPERATIVE, CONFLUENT_COOPERATIVE, OTTLA_COOPERATIVE],
    "librdkafka leads, cooperatively": [
        CONFLUENT_COOPERATIVE,
        OTTLA_COOPERATIVE,
        CONFLUENT_COOPERATIVE,
    ],
    "the coordinator divides": [
        kind._replace(strategy="uniform", protocol="consumer") for kind in (OTTLA, CONFLUENT, OTTLA)
    ],
}


@pytest.mark.interop
@pytest.mark.requirement("ARC-03", "GRP-15")
@pytest.mark.parametrize("kinds", MIXES.values(), ids=MIXES)
def test_our_members_and_others_share_a_group(crew: Crew, kinds: list[Kind]) -> None:
    """They join one after the other under load, then the leader leaves: everything is read once,
    and no partition belongs to two."""
    crew.join(kinds[0])
    crew.settle()
    load = Load(crew.address, crew.topic, 20_000, 4_000)
    for kind in kinds[1:]:
        crew.join(kind)
    crew.settle()
    crew.members[0].leave()
    crew.settle()
    crew.check(load.finish(), exactly_once=True)

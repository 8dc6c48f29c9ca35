"""A broker is added to an ISR and loses records before the controller hears of the addition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.coordinator.controller.events import BrokersRead
from ottla.coordinator.controller.specs import TopicSpec
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check
from tests.coordinator.controller.scene import Scene, broker

STATE = paths.state("t", 0)


def scene_without_the_third() -> Scene:
    """Broker 3 is out of the ISR, as far as the controller knows."""
    scene = Scene(broker(1), broker(2), broker(3))
    scene.create(TopicSpec("t", 1, 3))
    scene.live(broker(1), broker(2))
    scene.live(broker(1), broker(2), broker(3, 2))
    return scene


@pytest.mark.parametrize(("clean_stop_epoch", "is_checked"), [(-1, True), (2, False)])
def test_a_life_that_may_have_lost_records_is_not_begun_on_an_old_picture(
    clean_stop_epoch: int, is_checked: bool
) -> None:
    """R-22, R-23: the leader's addition of its last life may be in the store, unannounced; noted as
    seen without a look, it would be elected over those who have the records."""
    scene = scene_without_the_third()
    state = scene.state("t", 0)
    third = replace(broker(3, 3), clean_stop_epoch=clean_stop_epoch)
    decision = scene.controller.handle(BrokersRead((broker(1), broker(2), third)), 0.0)

    assert 3 not in state.isr
    operations = [operation for write in decision.records for operation in write.operations]
    checks = [operation for operation in operations if isinstance(operation, Check)]
    assert checks == ([Check(STATE, state.partition_epoch)] if is_checked else [])
    seen = [operation.path for operation in operations]
    assert seen[-1] == paths.seen_generation(3)

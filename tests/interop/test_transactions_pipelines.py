"""Consume-transform-produce with unmodified clients, under kills of clients and brokers: exactly
once.

The output that read_committed readers see must be the input, in order, in every run.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.cluster.support.pipeline import OPTIONS, Pipeline, Plan
from tests.cluster.support.real import RealCluster
from tests.interop.support.transacting import PIPELINES, PIPELINES_INSTALLED
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.support.pipeline import Outcome
    from tests.interop.support.transacting import Application

SHORT = Plan(records=5_000, strikes=("coordinator", "client"))
FULL = Plan(
    strikes=("client", "coordinator", "broker", "group-coordinator", "double", "coordinator")
)
# Of the records of the full form, to see whether a client works at all.
SCALE = float(os.environ.get("PIPELINE_SCALE", "1"))
RUNS = int(os.environ.get("PIPELINE_RUNS", "1"))


def carry(folder: Path, application: Application, plan: Plan, runs: int = 1) -> list[Outcome]:
    """Runs one after the other in one cluster; the outcomes are shown where tests fail."""
    command = application.command()
    outcomes = []
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(folder, zookeeper.address, options=OPTIONS) as cluster,
    ):
        for number in range(runs):
            seed = random.randrange(10**6)
            chance = random.Random(seed)
            strikes = tuple(chance.sample(plan.strikes, len(plan.strikes)))
            with Pipeline(cluster, command, plan._replace(strikes=strikes), folder) as pipeline:
                outcome = pipeline.run(seed)
            cluster.tell(f"{application.name} run {number}, seed {seed}: {outcome}")
            if "PIPELINE_NOTES" in os.environ:
                with open(os.environ["PIPELINE_NOTES"], "a") as notes:
                    notes.write(f"{application.name} {plan.records} {seed} {outcome}\n")
            outcomes.append(outcome)
    return outcomes


@pytest.mark.slow
@pytest.mark.requirement("TXN-31", "TXN-02", "TXN-03", "TXN-04")
def test_a_pipeline_outlives_its_coordinator_and_itself(tmp_path: Path) -> None:
    """The short form of the next test."""
    (outcome,) = carry(tmp_path, PIPELINES_INSTALLED[0], SHORT)

    assert outcome.starts >= 2
    assert len(outcome.strikes) == 2


@pytest.mark.interop
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("application", PIPELINES, ids=lambda one: one.name)
def test_pipelines_under_kills_are_exact(tmp_path: Path, application: Application) -> None:
    """Windows of a few milliseconds need many records to be hit."""
    plan = FULL._replace(records=int(FULL.records * SCALE))
    if not application.follows_leaders:
        plan = plan._replace(strikes=("client", "double", "client"))

    outcomes = carry(tmp_path, application, plan, RUNS)

    assert all(len(outcome.strikes) == len(plan.strikes) for outcome in outcomes)

"""The searches of CONTRIBUTING.md's "Examples to follow" find the places of the example.

A new file in a result does no harm and may be added to the list. A file that is missing has been
renamed or split: correct the list, and choose another search if it no longer finds the new place.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests.tidy.tree import ROOT, product_modules

if TYPE_CHECKING:
    from collections.abc import Mapping

# A result that is longer does not show a newcomer where to begin.
FILES_MAX = 26
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "elect_?leaders": (
            "broker/administration/partition_admin.py",
            "broker/api/handlers.py",
            "broker/api/rights.py",
            "broker/api/table.py",
            "broker/handlers/cluster/elections.py",
            "client/administration/placements.py",
            "coordinator/controller/elections.py",
            "coordinator/controller/events.py",
            "coordinator/controller/machine.py",
            "protocol/apis.py",
            "protocol/messages/elect_leaders.py",
            "wire/messages.py",
        ),
        'unregister_?broker|"unregister"': (
            "broker/administration/partition_admin.py",
            "broker/api/handlers.py",
            "broker/api/rights.py",
            "broker/api/table.py",
            "broker/handlers/cluster/unregister.py",
            "client/administration/brokers.py",
            "client/cli/cluster/cluster.py",
            "client/cli/parsers/cluster.py",
            "coordinator/controller/deletions.py",
            "coordinator/controller/events.py",
            "coordinator/controller/machine.py",
            "protocol/apis.py",
            "protocol/messages/unregister_broker.py",
            "wire/messages.py",
        ),
        "TopicDeletion|deletion_of|is_marked": (
            "broker/controlling/metadata_rescan.py",
            "broker/controlling/store_reader.py",
            "client/mirror/selection.py",
            "client/mirror/topics.py",
            "coordinator/controller/events.py",
            "coordinator/controller/finished.py",
            "coordinator/controller/specs.py",
            "coordinator/controller/topics.py",
        ),
        "ottla\\.timeline": (
            "broker/handlers/cluster/configs.py",
            "client/group/administration.py",
        ),
        "segment[._]ms": (
            "broker/log/open_log.py",
            "broker/log/partition_log.py",
            "broker/log/storage/settings.py",
            "broker/metadata/topic_settings.py",
            "client/mirror/plan.py",
            "coordinator/configs/broker_configs_table.py",
            "coordinator/configs/configs.py",
            "coordinator/configs/topic_configs.py",
        ),
        "delete[._]topic[._]enable": (
            "broker/controlling/controllership.py",
            "broker/controlling/store_reader.py",
            "broker/handlers/cluster/topics.py",
            "coordinator/configs/broker_configs.py",
            "coordinator/configs/broker_configs_table.py",
            "coordinator/controller/specs.py",
            "coordinator/controller/topics.py",
        ),
        "max[._]connection[._]creation[._]rate": (
            "broker/processes/plan.py",
            "broker/quotas/connections.py",
            "broker/server/listening.py",
            "coordinator/configs/broker_configs_table.py",
        ),
        "fetch_bytes_min": (
            "client/classic/connector.py",
            "client/classic/consumer_settings.py",
            "client/fetching/fetch_request.py",
            "client/settings/config.py",
            "client/settings/kafka_names.py",
            "client/settings/keywords.py",
            "client/settings/types.py",
        ),
        "max_poll_interval_ms": (
            "client/group/change.py",
            "client/group/member_state.py",
            "client/group/membership.py",
            "client/process/errors.py",
            "client/settings/config.py",
            "client/settings/kafka_names.py",
            "client/settings/keywords.py",
        ),
        "delivery_timeout_ms": (
            "client/cli/backup.py",
            "client/cli/settings.py",
            "client/console/connections.py",
            "client/process/errors.py",
            "client/records/delivery.py",
            "client/sending/accumulator.py",
            "client/sending/sender.py",
            "client/settings/accumulator_limits.py",
            "client/settings/config.py",
            "client/settings/kafka_names.py",
            "client/settings/keywords.py",
            "client/sync/deliveries.py",
        ),
        "audit_families|left_out_count": (
            "broker/coordinating/audit_topic.py",
            "broker/metrics/audit.py",
            "broker/security/audit.py",
            "broker/server/collectors.py",
        ),
        "clean_stop_epoch": (
            "broker/membership/lifecycle.py",
            "coordinator/controller/reading.py",
            "coordinator/metadata/image.py",
            "coordinator/store/paths.py",
        ),
        "full_?disks": (
            "broker/controlling/chores.py",
            "broker/controlling/controllership.py",
            "broker/controlling/metadata_rescan.py",
            "broker/controlling/store_reader.py",
            "broker/directories/full_disk_reports.py",
            "broker/following/fetchers.py",
            "broker/server/broker.py",
            "coordinator/controller/context.py",
            "coordinator/controller/events.py",
            "coordinator/controller/settlement.py",
            "coordinator/controller/topics.py",
            "coordinator/store/full_disks.py",
            "coordinator/store/paths.py",
        ),
        "clean_shutdown": (
            "broker/cli/check_disk.py",
            "broker/log/directories/directory.py",
            "broker/log/storage/names.py",
        ),
        "zstd": (
            "broker/cli/check_machine.py",
            "broker/handlers/cluster/telemetry.py",
            "broker/handlers/data/fetch.py",
            "broker/handlers/data/produce.py",
            "broker/metadata/topic_settings.py",
            "broker/partitions/partition_read.py",
            "broker/partitions/reading.py",
            "broker/partitions/reads.py",
            "broker/replica/append.py",
            "broker/replica/record_checks.py",
            "broker/telemetry/receiver.py",
            "client/cli/parsers/mirror.py",
            "client/cli/parsers/produce.py",
            "client/settings/config.py",
            "client/settings/keywords.py",
            "coordinator/configs/broker_configs_table.py",
            "coordinator/configs/configs.py",
            "coordinator/configs/topic_configs.py",
            "protocol/message_sets/lowering.py",
            "protocol/messages/fetch.py",
            "protocol/messages/produce.py",
            "protocol/records/compression.py",
            "protocol/records/old_messages.py",
            "protocol/records/zstd_frames.py",
        ),
        "mutation_rate|\\bmutation\\b": (
            "broker/quotas/client_limits.py",
            "broker/quotas/quotas.py",
            "broker/quotas/table.py",
            "client/administration/quotas.py",
            "client/cli/parsers/quotas.py",
            "client/sync/quotas.py",
        ),
        "token_changed": (
            "broker/security/audit.py",
            "broker/server/parts.py",
        ),
        "cooperative.?sticky|GroupDetails": (
            "client/group/assignors/assignor.py",
            "client/group/assignors/ranges.py",
            "client/group/assignors/registry.py",
            "client/group/assignors/round_robin.py",
            "client/group/assignors/sticky.py",
            "client/group/assignors/sticky_data.py",
            "client/group/assignors/subscriptions.py",
            "client/group/classic_protocol.py",
            "client/group/leadership.py",
            "client/group/subscribed_topics.py",
            "client/settings/config.py",
            "client/settings/kafka_names.py",
        ),
        "if[_-]not[_-]exists": (
            "client/cli/cluster/topics.py",
            "client/cli/parsers/topics.py",
        ),
        "failed_dirs": (
            "client/console/templates/cluster.html",
            "client/console/views/cluster_views.py",
            "client/console/views/result_schemas.py",
        ),
    }
)


def listed() -> dict[str, int]:
    """The searches of the page's table, and how many files it promises for each."""
    section = PAGE.partition("## Examples to follow")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| `(.+)` \| (\d+) \|$", section, re.MULTILINE)
    return {search.replace("\\|", "|"): int(count) for search, count in rows}


def found(search: str) -> set[str]:
    """What ``git grep -liE`` finds in the product's Python files and templates."""
    pattern = re.compile(search, re.IGNORECASE)
    texts = {module.path: module.text for module in product_modules()}
    texts |= {path: path.read_text("utf-8") for path in (ROOT / "client").rglob("*.html")}
    return {
        Path(path).relative_to(ROOT).as_posix()
        for path, text in texts.items()
        if pattern.search(text)
    }


def test_the_page_lists_the_searches_that_are_checked() -> None:
    """A search that no test runs goes stale without notice."""
    assert list(listed()) == list(EXAMPLES)


@pytest.mark.parametrize("search", EXAMPLES)
def test_each_search_finds_all_places_of_its_example(search: str) -> None:
    """A newcomer who follows an incomplete example leaves a place out."""
    places = found(search)

    assert set(EXAMPLES[search]) - places == set(), "renamed or split: correct the list"
    assert len(places) <= FILES_MAX, "choose a narrower search"
    assert abs(len(places) - listed()[search]) <= 1, f"the page: {search} finds {len(places)} files"

"""Bugs in segments, recovery, flushing and truncation of logs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "damage-is-cut",
        "broker/log/recovery/recovery.py",
        "    if find_valid(log, segment, position, offset_min) is not None:\n"
        "        return False\n",
        "",
        "Recovery does not cut damage that has valid batches behind it.",
        ("tests/broker/log/recovery/test_damage.py",),
    ),
    Mutant(
        "kept-messages-are-not-searched",
        "broker/log/recovery/recovery.py",
        "    return kept if found is None else found if kept is None else min(found, kept)\n",
        "    return found\n",
        "Recovery does not cut damage that has valid batches behind it.",
        ("tests/broker/log/test_kept_messages.py",),
    ),
    Mutant(
        "mark-not-durable",
        "broker/log/admission.py",
        "await replace_file(log.home.disk, join(log.directory, KEPT_FORMAT), KEPT_MARK)\n",
        "log.home.disk.open(join(log.directory, KEPT_FORMAT), create=True)\n",
        "The mark of a log that keeps messages of format 1 is durable before the first of them.",
        ("tests/broker/log/test_kept_messages.py",),
    ),
    Mutant(
        "kept-messages-are-moved",
        "coordinator/controller/move_events.py",
        "            fault = text if added else None\n",
        "            fault = text if not added else None\n",
        "Messages of format 1 are never copied to another broker.",
        ("tests/coordinator/controller/test_move_requests.py",),
    ),
    Mutant(
        "kept-messages-are-replicated",
        "coordinator/controller/topics.py",
        "        if keeps_format(configs) and replica_count > len(assignment):\n",
        "        if keeps_format(configs) and replica_count < len(assignment):\n",
        "Messages of format 1 are never copied to another broker.",
        ("tests/coordinator/controller/test_move_requests.py",),
    ),
    Mutant(
        "wrapper-takes-the-first-offset",
        "protocol/message_sets/kept.py",
        "        _put_int64(self.buffer, self.position, base_offset + self.last_offset_delta)\n",
        "        _put_int64(self.buffer, self.position, base_offset)\n",
        "A kept wrapper changes in its offset, and in its time where the broker sets it.",
        ("tests/broker/handlers/old/test_kept.py",),
    ),
    Mutant(
        "wrapper-keeps-a-wrong-time",
        "broker/replica/kept_sets.py",
        "        if one.max_timestamp != latest and not rules.uses_append_time:\n",
        "        if one.max_timestamp > latest and not rules.uses_append_time:\n",
        "A kept wrapper changes in its offset, and in its time where the broker sets it.",
        ("tests/broker/handlers/old/test_kept.py",),
    ),
    Mutant(
        "offsets-inside-are-not-judged",
        "broker/replica/kept_sets.py",
        "if not _count_from_zero(message, one, found) or not _fit(found, rules, wall_ms):\n",
        "if not _fit(found, rules, wall_ms):\n",
        "A kept wrapper changes in its offset, and in its time where the broker sets it.",
        ("tests/broker/handlers/old/test_kept.py",),
    ),
    Mutant(
        "recovery-believes-checksums",
        "broker/log/recovery/recovery.py",
        "                or not check_crc(batch)\n",
        "",
        "Recovery stops at the first batch whose checksum does not match.",
        ("tests/broker/log/recovery/test_recovery.py", "tests/broker/log/recovery/test_damage.py"),
    ),
    Mutant(
        "boot-noted-before-recovery",
        "broker/log/directories/directory.py",
        "            self._boots.read()\n",
        "            self._boots.read()\n            await self._boots.save(())\n",
        "The boot id is written after recovery and before the first append.",
        ("tests/broker/log/recovery/test_power_loss.py",),
    ),
    Mutant(
        "boot-never-noted",
        "broker/log/directories/directory.py",
        "                await self._boots.save(self.damaged)\n",
        "                pass\n",
        "The boot id is written after recovery and before the first append.",
        ("tests/broker/log/recovery/test_power_loss.py",),
    ),
    Mutant(
        "recovery-point-moves-first",
        "broker/log/flushing.py",
        "    is_done = False\n    synced: set[Segment] = set()\n",
        "    log.recovery_point = max(log.recovery_point, target)\n"
        "    is_done = False\n    synced: set[Segment] = set()\n",
        "The recovery point moves last.",
        ("tests/broker/log/test_flushing.py",),
    ),
    Mutant(
        "failed-fsync-tried-again",
        "broker/log/flushing.py",
        'raise log.home.health.latch(f"cannot flush the log of {log.partition}", error) from error',
        "return False",
        "A failed fsync is final.",
        ("tests/broker/log/test_flushing.py",),
    ),
    Mutant(
        "missing-descriptor-fails-the-disk",
        "broker/log/flushing.py",
        "        if is_out_of_descriptors(error):\n"
        "            log.home.health.make_room()\n"
        "            return False\n"
        "        raise log",
        "        raise log",
        "A missing file descriptor is not a fault of the disk.",
        ("tests/broker/log/test_flushing.py",),
    ),
    Mutant(
        "two-writers-of-the-epochs",
        "broker/log/flushing.py",
        "await to_its_end(replace_file(log.home.disk, path, encode_leader_epochs(entries)))",
        "await replace_file(log.home.disk, path, encode_leader_epochs(entries))",
        "A file has one writer, also when the task that writes it is cancelled.",
        ("tests/broker/log/test_flushing.py",),
    ),
    Mutant(
        "aborted-index-not-flushed",
        "broker/log/flushing.py",
        "    if transactions is not None:\n        await transactions.fsync()\n",
        "",
        "The index of aborted transactions is as durable as the markers.",
        ("tests/broker/log/test_flushing.py",),
    ),
    Mutant(
        "name-of-the-aborted-index-not-flushed",
        "broker/log/partition_log.py",
        "be shown (hazard T-18).\n                self.names_changed += 1\n",
        "be shown (hazard T-18).\n                pass\n",
        "The index of aborted transactions is as durable as the markers.",
        ("tests/broker/log/test_flushing.py",),
    ),
    Mutant(
        "clean-mark-stays",
        "broker/log/directories/directory.py",
        "        await self.home.disk.unlink(path)\n"
        "        await self.home.disk.fsync_directory(self.path)\n"
        "        mark = decode_mark(content)\n",
        "        mark = decode_mark(content)\n",
        "The mark of a clean stop is removed before any log is loaded.",
        ("tests/broker/log/directories/test_directory.py",),
    ),
    Mutant(
        "clean-mark-believed-blindly",
        "broker/log/recovery/loading.py",
        "    if (active.base_offset, active.size_bytes) != clean[1:3]:\n        return False\n",
        "",
        "The mark of a clean stop is removed before any log is loaded.",
        ("tests/broker/log/directories/test_directory.py",),
    ),
    Mutant(
        "truncation-changes-the-file-of-a-reply",
        "broker/log/truncation.py",
        "    if not is_held():\n        file =",
        "    if True:\n        file =",
        "Truncation never changes bytes under a running transfer.",
        ("tests/broker/log/test_truncation.py",),
    ),
    Mutant(
        "truncation-keeps-the-old-file-open",
        "broker/log/truncation.py",
        "    segment.close_file()\n    segment.synced_bytes",
        "    segment.synced_bytes",
        "After a truncation the log drops its reference to the old file a second time.",
        ("tests/broker/log/test_truncation.py",),
    ),
    Mutant(
        "truncation-keeps-the-recovery-point",
        "broker/log/truncation.py",
        "        if log.recovery_point > end_offset:\n"
        "            log.recovery_point = end_offset\n"
        "            await log.home.save_recovery_points()\n"
        "        if log.log_start",
        "        if log.log_start",
        "A truncation lowers the recovery point durably before the first byte goes.",
        (
            "tests/broker/log/test_truncation.py",
            "tests/broker/log/directories/test_crash_points.py",
        ),
    ),
    Mutant(
        "oldest-copy-is-served",
        "broker/log/directories/duplicates.py",
        "copies.sort(key=_rank, reverse=True)",
        "copies.sort(key=_rank)",
        "Of two copies of a partition, the broker serves the one that led last.",
        ("tests/broker/handlers/data/test_disk_faults.py",),
    ),
    Mutant(
        "torn-batch-stays-after-a-full-disk",
        "broker/log/partition_log.py",
        "                segment.file.truncate(segment.size_bytes)\n",
        "                pass\n",
        "A full disk leaves no half batch behind.",
        ("tests/broker/log/test_append.py",),
    ),
    Mutant(
        "read-goes-past-its-bound",
        "broker/log/partition_log.py",
        "        if upper_bound_offset > self.log_end_offset:\n",
        "        if upper_bound_offset != self.log_end_offset:\n",
        "A read ends before the bound that its caller gives.",
        ("tests/broker/log/test_read.py",),
    ),
    Mutant(
        "deletion-reaches-what-replicas-need",
        "broker/log/deletion.py",
        "        while count > 0 and not _may_go(log, count, upper_bound_offset):\n"
        "            count -= 1\n",
        "",
        "Retention deletes no segment that reaches above the high watermark.",
        ("tests/broker/log/test_deletion.py",),
    ),
    Mutant(
        "deleted-records-come-back",
        "broker/log/deletion.py",
        "        if log.has_unsaved_start:\n"
        "            await log.home.save_log_starts()\n"
        "            log.has_unsaved_start = False\n",
        "",
        "Deleted records do not come back after a power cut.",
        ("tests/broker/log/test_deletion.py",),
    ),
    Mutant(
        "failed-read-judged-without-the-lock",
        "broker/log/timestamps.py",
        "    async with log.lock:\n        if not _are_same(log, pairs):",
        "    if True:\n        if not _are_same(log, pairs):",
        "A failed read is judged under the lock of the log.",
        ("tests/broker/cleaner/test_cleaning_races.py",),
    ),
    Mutant(
        "snapshot-settles-an-uncommitted-end",
        "broker/log/recovery/loading.py",
        "    if holds_marker(unsettled_parts(log, settled_offset, offset)):\n"
        "        offset = load_newest_snapshot(log, settled_offset)\n"
        "    for segment in log.segments[log.segment_number(offset) :]:\n",
        "    for segment in log.segments[log.segment_number(offset) :]:\n",
        "A snapshot does not settle the end of a transaction above the high watermark.",
        ("tests/broker/log/test_history.py",),
    ),
    Mutant(
        "removed-file-is-closed",
        "broker/system/real_disk.py",
        "        with contextlib.suppress(OSError):\n            close(self._descriptor)\n",
        "        pass\n\n    def close(self) -> None:\n        os.close(self._descriptor)\n",
        "An open file has no `close`.",
        ("tests/broker/system/test_real_disk.py",),
    ),
)

"""Lag: how far groups are behind, watched from outside.

    python examples/groups/lag.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import sys

import ottla
import ottla.sync

# %% A cluster in this process, or the one whose address is given, and a group that is slow.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
admin = ottla.sync.Admin(servers)
admin.start()
admin.create_topic(ottla.NewTopic("jobs", 2, 1))
with ottla.sync.Producer(servers) as producer:
    for partition, count in ((0, 100), (1, 20)):
        producer.send_batch("jobs", [b"job"] * count, partition=partition)
with ottla.sync.Consumer(servers, group_id="workers", offset_reset="earliest") as worker:
    worker.subscribe(["jobs"])
    done = 0
    while done < 70:
        done += len(worker.poll(max_records=70 - done))


# %% Lag is where the log ends less where the group stands. Committed positions are all that can be
# seen from outside: a partition without one has not been read at all.
def lag_of(group: str) -> dict[int, int]:
    """By partition. What cannot be found out is left out."""
    lags: dict[int, int] = {}
    stands = admin.groups.offsets(group)
    for where, end in admin.list_offsets(dict.fromkeys(stands, -1)).items():
        if not isinstance(end, ottla.ClientError):
            lags[where.partition] = end.offset - stands[where].offset
    return lags


lag = lag_of("workers")
print("behind by", sum(lag.values()), "of 120")
# -> behind by 50 of 120
assert sum(lag.values()) == 50

# %% Which member causes the lag? None here: the group has no members at present.
view = admin.groups.describe("workers")
print(view.state, "with", len(view.members), "members")
# -> Empty with 0 members

# %% A group without members can be moved: back to do it again, or on to leave it undone.
where = ottla.TopicPartition("jobs", 0)
admin.groups.commit("workers", {where: ottla.Committed(100)})
assert lag_of("workers")[0] == 0

# %% From inside, a consumer knows its own lag with every poll.
with ottla.sync.Consumer(servers, offset_reset="earliest") as reader:
    reader.assign([where])
    reader.poll(10_000, max_records=40)
    print(reader.lag(where))
    # -> 60

# %% Offsets that no member needs any more can be deleted.
admin.groups.delete("workers")
print([one.group_id for one in admin.groups.list_all()])
# -> []
admin.close()
cluster.stop()

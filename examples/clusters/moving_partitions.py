"""Moving partitions: to other brokers, to more of them, and with another one leading.

    python examples/clusters/moving_partitions.py

It starts a cluster of its own, of three brokers. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import ottla
import ottla.sync

# %% A topic on brokers 1 and 2, with some records.
cluster = ottla.Cluster(brokers=3).start()
servers = cluster.bootstrap_servers
admin = ottla.sync.Admin(servers)
admin.start()
admin.create_topic(ottla.NewTopic("logs", assignment=[[1, 2]]))
where = ottla.TopicPartition("logs", 0)
with ottla.sync.Producer(servers) as producer:
    producer.send_batch("logs", [b"line %d" % number for number in range(1_000)]).result()


def look() -> str:
    """Who has it, and who leads."""
    view = admin.describe_topic("logs").partitions[0]
    return f"on {list(view.replicas)}, led by {view.leader_id}"


print(look())
# -> on [1, 2], led by 1

# %% Ask for other places. The first of them is the preferred leader. Copying goes on meanwhile, and
# so do producers and consumers.
refusals = admin.placements.move({where: [3, 2]})
assert refusals == {where: None}
while admin.placements.moves() or not look().startswith("on [3, 2],"):
    pass
print(look())
# -> on [3, 2], led by ...

# %% Who leads is another matter: an election makes the first of the list lead.
while cluster.leader("logs") != 3:
    admin.placements.elect(ottla.ElectionType.PREFERRED, [where])
print("led by", cluster.leader("logs"))
# -> led by 3

# %% More copies, or fewer, are a move as well.
admin.placements.move({where: [3, 2, 1]})
while admin.placements.moves() or not look().startswith("on [3, 2, 1],"):
    pass
print(look())
# -> on [3, 2, 1], led by 3

# %% Nothing is lost on the way.
with ottla.sync.Consumer(servers) as consumer:
    end = consumer.end_offsets([where])[where]
print(end, "records")
# -> 1000 records
assert end == 1_000
admin.close()
cluster.stop()

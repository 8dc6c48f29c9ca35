"""Consumer groups that live in ZooKeeper: a group's registry, and the rebalances of its members.

A member decides alone. It reads who else is in the group and which partitions there are, divides
the partitions as every other member does, and takes its share by creating ephemeral owner znodes.
Two members may read the tree at different moments and disagree for a while; the owner znodes keep
them apart, because a znode exists once. A member that meets a foreign owner znode tries again.

Pure: ``topic_filter``, ``subscription`` (what a member wants, in both written forms), ``layout``
(paths and names of partitions), ``division`` (the nine steps), ``attempts`` (when to try again).
Shell: ``registry`` (reads and writes the tree through the metadata store's interface) and
``member`` (registration, watches, the order of each rebalance, and the end of a session).

The order of a rebalance keeps two members from processing one partition:

1. hold: the streams hand out nothing more, and their waiting records are dropped;
2. commit what was handed out, then delete the own owner znodes;
3. read the tree, with watches, and divide;
4. create the owner znodes of the share, all or none; if one exists, go back to 1 after a wait;
5. only now read the committed offsets, which the previous owner wrote before it let go, and begin.

A member whose session may be over holds its streams: at the latest when the servers could end the
session, counted from the last answer. Offsets are written through the session that holds the owner
znodes, so a member without a session cannot move them.
"""

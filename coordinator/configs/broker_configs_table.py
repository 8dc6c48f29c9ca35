"""Every setting of a broker that Kafka 3.9 has in ZooKeeper mode, and our own.

One line of facts per setting, one of what it means. The columns: name, type, default, legal
values, how it is changed while the broker runs, and whether it has an effect here. ``start`` means
from the configuration file only: a change is stored, as Kafka's tools expect, and has no effect.
Four defaults are ours: the listener binds to this machine only, the data lies in the working
directory, the kernel sizes receive buffers (100 KiB nearly doubled the cost of requests of 128
KiB), and a message before authentication has at most 16 KiB (512 KiB in Kafka), so that strangers
take little memory.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.configs.definitions import Definition, Update, define, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE = """
advertised.listeners | string | null | - | per-broker | start
    Addresses that clients are told to connect to, where they differ from listeners.
allow.everyone.if.no.acl.found | bool | false | - | read-only | yes
    Whether all clients may use a resource that no access rule is about.
alter.config.policy.class.name | class | null | - | read-only | no
    Java class that vets configuration changes.
alter.log.dirs.replication.quota.window.num | int | 11 | >=1 | read-only | no
    Samples kept for the rate limit of moves between directories.
alter.log.dirs.replication.quota.window.size.seconds | int | 1 | >=1 | read-only | no
    Length of one sample of the rate.
authorizer.class.name | string | "" | {, kafka.security.authorizer.AclAuthorizer, \
org.apache.kafka.metadata.authorizer.StandardAuthorizer, ottla.acl} | read-only | yes
    Whether access rules (ACLs) count: each of these names means the authorizer of this broker.
auto.create.topics.enable | bool | true | - | read-only | yes
    Whether asking for a topic's metadata makes the topic.
auto.include.jmx.reporter | bool | true | - | read-only | no
    Whether metrics go to JMX unasked.
auto.leader.rebalance.enable | bool | true | - | read-only | yes
    Whether the controller gives leadership back to preferred replicas by itself.
background.threads | int | 10 | >=1 | cluster-wide | no
    Threads for the broker's background work.
broker.heartbeat.interval.ms | int | 2000 | - | read-only | no
    Time between a KRaft broker's heartbeats.
broker.id | int | -1 | - | read-only | yes
    The broker's number in the cluster; -1 has one generated.
broker.id.generation.enable | bool | true | - | read-only | yes
    Whether a broker without a number may have one generated.
broker.rack | string | null | - | read-only | yes
    Where the broker stands; replicas are spread over racks.
broker.session.timeout.ms | int | 9000 | - | read-only | no
    Silence after which KRaft fences a broker.
client.quota.callback.class | class | null | - | read-only | no
    Java class that decides on client quotas.
compression.gzip.level | int | -1 | -1, 1..9 | cluster-wide | yes
    Effort of gzip when the broker compresses with it; -1 is the library's choice.
compression.lz4.level | int | 9 | 1..17 | cluster-wide | yes
    Effort of lz4 when the broker compresses with it.
compression.type | string | producer | {uncompressed, zstd, lz4, snappy, gzip, producer} \
| cluster-wide | yes
    Codec that batches are stored in; producer keeps whatever each batch came with.
compression.zstd.level | int | 3 | -131072..22 | cluster-wide | yes
    Effort of zstd when the broker compresses with it.
connection.failed.authentication.delay.ms | int | 100 | >=0 | read-only | yes
    Delay before a connection that failed to authenticate is closed.
connections.max.idle.ms | long | 600000 | - | read-only | yes
    Silence after which a connection is closed.
connections.max.reauth.ms | long | 0 | - | read-only | yes
    Time after which a SASL client must authenticate again; 0 is never.
control.plane.listener.name | string | null | - | read-only | no
    Listener kept for the controller's requests.
controlled.shutdown.enable | bool | true | - | read-only | yes
    Whether a broker hands its leaderships over before it stops.
controlled.shutdown.max.retries | int | 3 | - | read-only | yes
    Attempts at handing leaderships over.
controlled.shutdown.retry.backoff.ms | long | 5000 | - | read-only | yes
    Pause between those attempts.
controller.listener.names | string | null | - | read-only | yes
    Listeners of a KRaft controller; they are left out of this broker's own.
controller.quorum.append.linger.ms | int | 25 | - | read-only | no
    Time a KRaft leader gathers writes.
controller.quorum.bootstrap.servers | list | "" | - | read-only | no
    Where a KRaft node finds the quorum.
controller.quorum.election.backoff.max.ms | int | 1000 | - | read-only | no
    Longest pause between KRaft elections.
controller.quorum.election.timeout.ms | int | 1000 | - | read-only | no
    Wait for votes before a new KRaft election.
controller.quorum.fetch.timeout.ms | int | 2000 | - | read-only | no
    Silence of the leader before a KRaft voter stands for election.
controller.quorum.request.timeout.ms | int | 2000 | - | read-only | no
    Time limit of requests within the KRaft quorum.
controller.quorum.retry.backoff.ms | int | 20 | - | read-only | no
    Pause before a request within the KRaft quorum is repeated.
controller.quorum.voters | list | "" | - | read-only | no
    The KRaft quorum's members.
controller.quota.window.num | int | 11 | >=1 | read-only | yes
    Samples kept for the limit on topic changes.
controller.quota.window.size.seconds | int | 1 | >=1 | read-only | yes
    Length of one sample of the rate.
controller.socket.timeout.ms | int | 30000 | - | read-only | no
    Time limit of the controller's requests to brokers.
create.topic.policy.class.name | class | null | - | read-only | no
    Java class that vets new topics.
default.replication.factor | int | 1 | - | read-only | yes
    Replicas of topics whose creator named no number.
delegation.token.expiry.check.interval.ms | long | 3600000 | >=1 | read-only | yes
    How often the controller removes expired delegation tokens.
delegation.token.expiry.time.ms | long | 86400000 | >=1 | read-only | yes
    Life of a delegation token unless it is renewed.
delegation.token.master.key | password | null | - | read-only | yes
    Older name of delegation.token.secret.key.
delegation.token.max.lifetime.ms | long | 604800000 | >=1 | read-only | yes
    Life of a delegation token however often it is renewed.
delegation.token.secret.key | password | null | - | read-only | yes
    Secret of all brokers that the HMACs of delegation tokens are made with; without it there \
are no tokens.
delete.records.purgatory.purge.interval.requests | int | 1 | - | read-only | no
    Parked DeleteRecords requests between two sweeps.
delete.topic.enable | bool | true | - | read-only | yes
    Whether topics can be deleted.
early.start.listeners | string | null | - | read-only | no
    Listeners that open before KRaft metadata has been loaded.
eligible.leader.replicas.enable | bool | false | - | read-only | no
    Whether KRaft keeps lists of eligible leaders (KIP-966).
fetch.max.bytes | int | 57671680 | >=1024 | read-only | yes
    Largest answer to a fetch, whatever the consumer asks for.
fetch.purgatory.purge.interval.requests | int | 1000 | - | read-only | no
    Parked fetches between two sweeps.
follower.replication.throttled.rate | long | MAX | >=0 | cluster-wide | yes
    Bytes per second of throttled replicas that a follower may fetch.
group.consumer.assignors | list | org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
org.apache.kafka.coordinator.group.assignor.RangeAssignor | \
{org.apache.kafka.coordinator.group.assignor.UniformAssignor, \
org.apache.kafka.coordinator.group.assignor.RangeAssignor, uniform, range} | read-only | yes
    Assignment strategies of the broker's for KIP-848 groups, preferred one first.
group.consumer.heartbeat.interval.ms | int | 5000 | >=1 | read-only | yes
    Time between heartbeats that members of KIP-848 groups are given.
group.consumer.max.heartbeat.interval.ms | int | 15000 | >=1 | read-only | yes
    Largest heartbeat interval a KIP-848 group may be set to.
group.consumer.max.session.timeout.ms | int | 60000 | >=1 | read-only | yes
    Largest session timeout a KIP-848 group may be set to.
group.consumer.max.size | int | MAX | >=1 | read-only | yes
    Largest number of members in a KIP-848 group.
group.consumer.migration.policy | string | bidirectional | \
{bidirectional, disabled, downgrade, upgrade} | read-only | yes
    Whether groups with members may change between the classic protocol and KIP-848.
group.consumer.min.heartbeat.interval.ms | int | 5000 | >=1 | read-only | yes
    Smallest heartbeat interval a KIP-848 group may be set to.
group.consumer.min.session.timeout.ms | int | 45000 | >=1 | read-only | yes
    Smallest session timeout a KIP-848 group may be set to.
group.consumer.session.timeout.ms | int | 45000 | >=1 | read-only | yes
    Silence after which a member leaves its KIP-848 group.
group.coordinator.append.linger.ms | int | 10 | >=0 | read-only | no
    Time the group coordinator gathers writes.
group.coordinator.new.enable | bool | false | - | read-only | no
    Switches the group coordinator of KIP-848 on.
group.coordinator.rebalance.protocols | list | classic | {consumer, classic, share} | read-only | no
    Kinds of groups that are served.
group.coordinator.threads | int | 1 | >=1 | read-only | no
    Threads of the group coordinator.
group.initial.rebalance.delay.ms | int | 3000 | - | read-only | yes
    Wait for more members before an empty group's first rebalance.
group.max.session.timeout.ms | int | 1800000 | - | read-only | yes
    Largest session timeout a classic group's member may ask for.
group.max.size | int | MAX | >=1 | read-only | yes
    Largest number of members in a classic group.
group.min.session.timeout.ms | int | 6000 | - | read-only | yes
    Smallest session timeout a classic group's member may ask for.
group.share.delivery.count.limit | int | 5 | 2..10 | read-only | no
    Deliveries of a record before a share group gives it up.
group.share.heartbeat.interval.ms | int | 5000 | >=1 | read-only | no
    Time between heartbeats that members of share groups are given.
group.share.max.groups | short | 10 | 1..100 | read-only | no
    Largest number of share groups.
group.share.max.heartbeat.interval.ms | int | 15000 | >=1 | read-only | no
    Largest heartbeat interval a share group may be set to.
group.share.max.record.lock.duration.ms | int | 60000 | 30000..3600000 | read-only | no
    Longest lock a share group may be set to.
group.share.max.session.timeout.ms | int | 60000 | >=1 | read-only | no
    Largest session timeout a share group may be set to.
group.share.max.size | short | 200 | 10..1000 | read-only | no
    Largest number of members in a share group.
group.share.min.heartbeat.interval.ms | int | 5000 | >=1 | read-only | no
    Smallest heartbeat interval a share group may be set to.
group.share.min.record.lock.duration.ms | int | 15000 | 1000..30000 | read-only | no
    Shortest lock a share group may be set to.
group.share.min.session.timeout.ms | int | 45000 | >=1 | read-only | no
    Smallest session timeout a share group may be set to.
group.share.partition.max.record.locks | int | 200 | 100..10000 | read-only | no
    Records of a partition that may be locked at once.
group.share.record.lock.duration.ms | int | 30000 | 1000..60000 | read-only | no
    Time a share group's member has for a record it got.
group.share.session.timeout.ms | int | 45000 | >=1 | read-only | no
    Silence after which a member leaves its share group.
initial.broker.registration.timeout.ms | int | 60000 | - | read-only | no
    Time a KRaft broker may take to register.
inter.broker.listener.name | string | null | - | read-only | yes
    Listener that brokers use among themselves.
inter.broker.protocol.version | string | 3.9-IV0 | - | read-only | no
    Release whose rules count among brokers; only 0.8 differs, by replica.lag.max.messages.
kafka.metrics.polling.interval.secs | int | 10 | >=1 | read-only | no
    Time between polls of the old metrics library.
kafka.metrics.reporters | list | "" | - | read-only | no
    Java classes that report the old library's metrics.
leader.imbalance.check.interval.seconds | long | 300 | >=1 | read-only | yes
    Time between the controller's looks for misplaced leaders.
leader.imbalance.per.broker.percentage | int | 10 | - | read-only | yes
    Misplaced leaders per broker that the controller tolerates.
leader.replication.throttled.rate | long | MAX | >=0 | cluster-wide | yes
    Bytes per second of throttled replicas that a leader may send.
listener.security.protocol.map | string | SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,\
SASL_PLAINTEXT:SASL_PLAINTEXT | - | per-broker | start
    Security protocol of each listener name.
listeners | string | PLAINTEXT://127.0.0.1:9092 | - | per-broker | start
    Addresses to listen on; one without a host is bound to this machine only.
log.cleaner.backoff.ms | long | 15000 | >=0 | cluster-wide | yes
    Pause of the cleaner when there is nothing to compact.
log.cleaner.dedupe.buffer.size | long | 134217728 | - | cluster-wide | yes
    Memory for the offset maps of all cleaners together.
log.cleaner.delete.retention.ms | long | 86400000 | >=0 | cluster-wide | yes
    How long a compacted topic keeps tombstones, so that slow readers still see them.
log.cleaner.enable | bool | true | - | read-only | yes
    Whether compaction runs at all.
log.cleaner.io.buffer.load.factor | double | 0.9 | - | cluster-wide | yes
    How full the cleaner's offset map may become.
log.cleaner.io.buffer.size | int | 524288 | >=0 | cluster-wide | no
    Memory for the cleaners' reading and writing.
log.cleaner.io.max.bytes.per.second | double | MAX | - | cluster-wide | yes
    Rate limit of the cleaners' reading and writing.
log.cleaner.max.compaction.lag.ms | long | MAX | >=1 | cluster-wide | yes
    Longest time that a record may escape compaction.
log.cleaner.min.cleanable.ratio | double | 0.5 | 0..1 | cluster-wide | yes
    Part of a compacted log that must be uncompacted before it is worth a run.
log.cleaner.min.compaction.lag.ms | long | 0 | >=0 | cluster-wide | yes
    Time during which a record is safe from compaction.
log.cleaner.threads | int | 1 | >=0 | cluster-wide | no
    Cleaners that work side by side.
log.cleanup.policy | list | delete | {compact, delete} | cluster-wide | yes
    What becomes of old segments: deleted, compacted to the newest value per key, or both.
log.dir | string | ottla-data | - | read-only | yes
    Data directory, where log.dirs names none.
log.dir.failure.timeout.ms | long | 30000 | >=1 | read-only | no
    Time after which a KRaft broker that cannot report a failed directory stops.
log.dirs | string | null | - | read-only | yes
    Data directories, separated by commas.
log.flush.interval.messages | long | MAX | >=1 | cluster-wide | yes
    Appended records after which a log is forced to the disk.
log.flush.interval.ms | long | null | - | cluster-wide | yes
    Time after which appended records are forced to the disk.
log.flush.offset.checkpoint.interval.ms | int | 60000 | >=0 | read-only | yes
    Time between writes of the recovery points.
log.flush.scheduler.interval.ms | long | MAX | - | read-only | yes
    Time between looks for logs that are due to be forced to the disk.
log.flush.start.offset.checkpoint.interval.ms | int | 60000 | >=0 | read-only | yes
    Time between writes of the log start offsets.
log.index.interval.bytes | int | 4096 | >=0 | cluster-wide | yes
    Bytes of log between two entries of the offset index.
log.index.size.max.bytes | int | 10485760 | >=4 | cluster-wide | yes
    Largest size of a segment's offset index.
log.local.retention.bytes | long | -2 | >=-2 | cluster-wide | no
    With tiered storage, the size kept on the broker's own disk; -2 means log.retention.bytes.
log.local.retention.ms | long | -2 | >=-2 | cluster-wide | no
    With tiered storage, the time kept on the broker's own disk; -2 means log.retention.ms.
log.message.downconversion.enable | bool | true | - | cluster-wide | yes
    Whether old consumers get batches converted to their format.
log.message.format.version | string | 3.0-IV1 | - | read-only | no
    Has had no meaning since Kafka 3.0: batches are stored in the newest format.
log.message.timestamp.after.max.ms | long | MAX | >=0 | cluster-wide | yes
    How far a producer's timestamp may lie after the broker's clock.
log.message.timestamp.before.max.ms | long | MAX | >=0 | cluster-wide | yes
    How far a producer's timestamp may lie before the broker's clock.
log.message.timestamp.difference.max.ms | long | MAX | >=0 | cluster-wide | yes
    Older form of the two limits on timestamps, for both directions at once.
log.message.timestamp.type | string | CreateTime | {CreateTime, LogAppendTime} | cluster-wide | yes
    Whose clock stamps records: the producer's or, at the append, the broker's.
log.preallocate | bool | false | - | cluster-wide | no
    Whether a new segment's file takes its full size at once.
log.retention.bytes | long | -1 | - | cluster-wide | yes
    Size of a partition beyond which its oldest segments are deleted; -1 is no limit.
log.retention.check.interval.ms | long | 300000 | >=1 | read-only | yes
    Time between looks for segments to delete.
log.retention.hours | int | 168 | - | read-only | yes
    Age in hours at which a segment is deleted, unless minutes or ms say otherwise.
log.retention.minutes | int | null | - | read-only | yes
    Age in minutes at which a segment is deleted, unless ms says otherwise.
log.retention.ms | long | null | - | cluster-wide | yes
    Age at which a segment is deleted; -1 is no limit.
log.roll.hours | int | 168 | >=1 | read-only | yes
    Age in hours at which a log starts its next segment, unless ms says otherwise.
log.roll.jitter.hours | int | 0 | >=0 | read-only | yes
    Random time in hours taken off log.roll.hours, unless ms says otherwise.
log.roll.jitter.ms | long | null | - | cluster-wide | yes
    Random time taken off log.roll.ms, so that not all partitions roll at once.
log.roll.ms | long | null | - | cluster-wide | yes
    Age at which a log starts its next segment even if the last one is not full.
log.segment.bytes | int | 1073741824 | >=14 | cluster-wide | yes
    Size at which a log starts its next segment file.
log.segment.delete.delay.ms | long | 60000 | >=0 | cluster-wide | yes
    How long a deleted segment's files stay, for readers that are still at them.
max.connection.creation.rate | int | MAX | >=0 | cluster-wide | yes
    New connections per second that are accepted.
max.connections | int | MAX | >=0 | cluster-wide | yes
    Connections that may be open at once.
max.connections.per.ip | int | MAX | >=0 | cluster-wide | yes
    Connections that one address may have open at once.
max.connections.per.ip.overrides | string | "" | - | cluster-wide | yes
    Exceptions to max.connections.per.ip, as address:number with commas between.
max.incremental.fetch.session.cache.slots | int | 1000 | >=0 | read-only | yes
    Fetch sessions that are remembered.
max.request.partition.size.limit | int | 2000 | >=1 | read-only | yes
    Partitions in one answer to DescribeTopicPartitions.
message.max.bytes | int | 1048588 | >=0 | cluster-wide | yes
    Largest batch that may be produced, as it is stored.
metadata.log.dir | string | null | - | read-only | no
    Directory of the KRaft log.
metadata.log.max.record.bytes.between.snapshots | long | 20971520 | >=1 | read-only | no
    Bytes of KRaft log before a new snapshot.
metadata.log.max.snapshot.interval.ms | long | 3600000 | >=0 | read-only | no
    Time before a new KRaft snapshot.
metadata.log.segment.bytes | int | 1073741824 | >=12 | read-only | no
    Segment size of the KRaft log.
metadata.log.segment.ms | long | 604800000 | - | read-only | no
    Segment age of the KRaft log.
metadata.max.idle.interval.ms | int | 500 | >=0 | read-only | no
    Time between no-op records in the KRaft log.
metadata.max.retention.bytes | long | 104857600 | - | read-only | no
    Size of the KRaft log and its snapshots before old ones go.
metadata.max.retention.ms | long | 604800000 | - | read-only | no
    Age at which KRaft log and snapshots go.
metric.reporters | list | "" | - | cluster-wide | no
    Java classes that report metrics.
metrics.num.samples | int | 2 | >=1 | read-only | no
    Samples kept for each metric.
metrics.recording.level | string | INFO | - | read-only | no
    Finest level of metrics that is recorded.
metrics.sample.window.ms | long | 30000 | >=1 | read-only | no
    Length of one sample of the rate.
min.insync.replicas | int | 1 | >=1 | cluster-wide | yes
    Replicas that must have a write before acks=all is answered with success.
node.id | int | -1 | - | read-only | yes
    KRaft's name for broker.id; taken for it when that is not set.
num.io.threads | int | 8 | >=1 | cluster-wide | start
    Requests that are handled side by side.
num.network.threads | int | 3 | >=1 | cluster-wide | start
    Processors of each listener, which read requests and send answers.
num.partitions | int | 1 | >=1 | read-only | yes
    Partitions of topics whose creator named no number.
num.recovery.threads.per.data.dir | int | 1 | >=1 | cluster-wide | start
    Logs of a data directory that are loaded and recovered side by side.
num.replica.alter.log.dirs.threads | int | null | - | read-only | no
    Threads that move replicas between directories.
num.replica.fetchers | int | 1 | - | cluster-wide | start
    Fetchers per leading broker that a follower runs.
offset.metadata.max.bytes | int | 4096 | - | read-only | yes
    Largest text that may go with a committed offset.
offsets.commit.required.acks | short | -1 | - | read-only | no
    Acknowledgements that a commit waits for.
offsets.commit.timeout.ms | int | 5000 | >=1 | read-only | yes
    Time a commit may take to be replicated.
offsets.load.buffer.size | int | 5242880 | >=1 | read-only | no
    Bytes per read when a group coordinator loads its partition.
offsets.retention.check.interval.ms | long | 600000 | >=1 | read-only | yes
    Time between looks for expired offsets.
offsets.retention.minutes | int | 10080 | >=1 | read-only | yes
    Time that an empty group's offsets are kept.
offsets.topic.compression.codec | int | 0 | 0..4 | read-only | yes
    Codec of the offsets topic, as a number.
offsets.topic.num.partitions | int | 50 | >=1 | read-only | yes
    Partitions of the offsets topic.
offsets.topic.replication.factor | short | 3 | >=1 | read-only | yes
    Replicas of the offsets topic.
offsets.topic.segment.bytes | int | 104857600 | >=1 | read-only | yes
    Segment size of the offsets topic.
ottla.allow.insecure.listeners | list | "" | - | read-only | yes
    Listeners on trusted networks: no warning that they are open. KAFKA07 is ottla.listener.07.
ottla.allow.readable.keys | bool | false | - | read-only | yes
    Whether files of private keys may be readable by other users of the machine.
ottla.audit.log | string | null | - | read-only | yes
    File that the lines of the audit log are appended to; without it they go to the log.
ottla.audit.log.required | bool | true | - | read-only | yes
    Whether the broker refuses changes while it cannot append to ottla.audit.log.
ottla.audit.topic | bool | false | - | read-only | yes
    Whether the lines of the audit log also go to the internal topic __audit.
ottla.audit.topic.replication.factor | short | 3 | >=1 | read-only | yes
    Replicas of the audit topic.
ottla.audit.topic.retention.ms | long | 2592000000 | >=-1 | read-only | yes
    Time that the audit topic keeps a line, as it is made; 30 days, -1 is no limit.
ottla.authentication.max.connections | int | 256 | >=1 | read-only | yes
    Connections that may be logging in at one time; beyond that the oldest of them is closed.
ottla.authentication.max.connections.per.ip | int | 128 | >=1 | read-only | yes
    The same for the connections of one address.
ottla.authentication.timeout.ms | int | 10000 | >=1 | read-only | yes
    Time from connecting to being authenticated.
ottla.broker.principals | string | "" | broker-principals | read-only | yes
    Principals that may speak as a broker, with {id} for its id, such as User:broker-{id}.
ottla.client.telemetry | bool | false | - | read-only | yes
    Takes the metrics that clients push and shows them at /metrics (KIP-714); needs ottla[otel].
ottla.fetch.zero.copy | bool | true | - | read-only | yes
    Whether fetched records go from file to socket without passing through the process.
ottla.free.space.floor.bytes | long | 268435456 | >=0 | read-only | yes
    Free space of a data directory below which writes to it are refused.
ottla.inter.broker.listeners | list | "" | - | read-only | yes
    Listeners that brokers may come by, besides inter.broker.listener.name, while it is changed.
ottla.listener.07 | string | null | address | read-only | yes
    Where clients of Kafka 0.7 are served, as host:port, without login; nowhere if not set.
ottla.metrics.listener | string | null | address | read-only | yes
    Where /metrics, /healthz and /readyz are served over HTTP, as host:port; nowhere if not set.
ottla.oauthbearer.allow.unsecured.tokens | bool | false | - | read-only | yes
    Whether OAUTHBEARER takes tokens without a signature, which any client can make: for tests.
ottla.oauthbearer.required.scope | list | "" | - | read-only | yes
    Scopes that a token of OAUTHBEARER must have.
ottla.trace.interval.ms | int | 0 | >=0 | read-only | yes
    Time between looks at the progress of replicas, for 'ottla trace record'; 0 keeps none.
ottla.tracing.endpoint | string | null | - | read-only | yes
    URL that gets spans of requests as OTLP, such as http://HOST:4318/v1/traces; needs ottla[otel].
ottla.tracing.sample.ratio | double | 0.01 | 0..1 | read-only | yes
    Share of the requests that are traced.
ottla.validate.records | string | full | {full, header} | cluster-wide | yes
    What is checked of produced batches: full reads all records, header the batch header alone.
ottla.zookeeper.digest | password | null | - | read-only | yes
    User and password, as user:password, that all brokers log in to ZooKeeper with.
ottla.zookeeper.others.read | bool | false | - | read-only | yes
    With zookeeper.set.acl: whether every program may read nodes but users and tokens, as in Kafka.
password.encoder.cipher.algorithm | string | AES/CBC/PKCS5Padding | - | read-only | no
    Cipher for passwords kept in ZooKeeper.
password.encoder.iterations | int | 4096 | >=1024 | read-only | no
    Rounds of that cipher's key derivation.
password.encoder.key.length | int | 128 | >=8 | read-only | no
    Length of that cipher's key.
password.encoder.keyfactory.algorithm | string | null | - | read-only | no
    Key derivation of that cipher.
password.encoder.old.secret | password | null | - | read-only | no
    Former secret for passwords kept in ZooKeeper.
password.encoder.secret | password | null | - | read-only | no
    Secret for passwords kept in ZooKeeper.
principal.builder.class | class \
| org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | - | per-broker | no
    Java class that turns a connection's identity into a principal.
process.roles | list | "" | {broker, controller} | read-only | no
    KRaft's roles of the process; there is no KRaft here.
producer.id.expiration.ms | int | 86400000 | >=1 | cluster-wide | start
    Silence after which an idempotent producer is forgotten.
producer.purgatory.purge.interval.requests | int | 1000 | - | read-only | no
    Parked produce requests between two sweeps.
queued.max.request.bytes | long | -1 | - | read-only | yes
    Bytes of waiting requests after which no more are read; -1 is no limit.
queued.max.requests | int | 500 | >=1 | read-only | yes
    Waiting requests after which no more are read.
quota.window.num | int | 11 | >=1 | read-only | no
    Samples kept for client quotas.
quota.window.size.seconds | int | 1 | >=1 | read-only | yes
    Length of one sample of the rate.
remote.fetch.max.wait.ms | int | 500 | >=1 | cluster-wide | no
    With tiered storage, the longest wait for a remote read.
remote.log.index.file.cache.total.size.bytes | long | 1073741824 | >=1 | cluster-wide | no
    With tiered storage, the local cache of remote indexes.
remote.log.manager.copier.thread.pool.size | int | -1 | - | read-only | no
    With tiered storage, threads that copy segments away.
remote.log.manager.copy.max.bytes.per.second | long | MAX | >=1 | cluster-wide | no
    With tiered storage, the rate limit of copying.
remote.log.manager.copy.quota.window.num | int | 11 | >=1 | read-only | no
    Samples kept for that limit.
remote.log.manager.copy.quota.window.size.seconds | int | 1 | >=1 | read-only | no
    Length of one sample of the rate.
remote.log.manager.expiration.thread.pool.size | int | -1 | - | read-only | no
    With tiered storage, threads that expire remote segments.
remote.log.manager.fetch.max.bytes.per.second | long | MAX | >=1 | cluster-wide | no
    With tiered storage, the rate limit of remote reads.
remote.log.manager.fetch.quota.window.num | int | 11 | >=1 | read-only | no
    Samples kept for that limit.
remote.log.manager.fetch.quota.window.size.seconds | int | 1 | >=1 | read-only | no
    Length of one sample of the rate.
remote.log.manager.task.interval.ms | long | 30000 | >=1 | read-only | no
    With tiered storage, the time between rounds of work.
remote.log.manager.thread.pool.size | int | 10 | >=1 | read-only | no
    With tiered storage, threads for its work.
remote.log.metadata.custom.metadata.max.bytes | int | 128 | >=0 | read-only | no
    With tiered storage, the largest plugin metadata per segment.
remote.log.metadata.manager.class.name | string | \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager | - \
| read-only | no
    With tiered storage, the Java class that keeps its metadata.
remote.log.metadata.manager.class.path | string | null | - | read-only | no
    Where that class is loaded from.
remote.log.metadata.manager.impl.prefix | string | rlmm.config. | - | read-only | no
    Prefix of that class's own settings.
remote.log.metadata.manager.listener.name | string | null | - | read-only | no
    Listener that this class connects to.
remote.log.reader.max.pending.tasks | int | 100 | >=1 | read-only | no
    With tiered storage, remote reads that may wait.
remote.log.reader.threads | int | 10 | >=1 | read-only | no
    With tiered storage, threads for remote reads.
remote.log.storage.manager.class.name | string | null | - | read-only | no
    With tiered storage, the Java class that stores segments.
remote.log.storage.manager.class.path | string | null | - | read-only | no
    Where that class is loaded from.
remote.log.storage.manager.impl.prefix | string | rsm.config. | - | read-only | no
    Prefix of that class's own settings.
remote.log.storage.system.enable | bool | false | - | read-only | no
    Whether tiered storage is on; there is none here.
replica.alter.log.dirs.io.max.bytes.per.second | long | MAX | >=0 | cluster-wide | yes
    Bytes per second for moves between directories.
replica.fetch.backoff.ms | int | 1000 | >=0 | read-only | yes
    Pause of a follower after a failed fetch.
replica.fetch.max.bytes | int | 1048576 | >=0 | read-only | yes
    Bytes per partition that a follower fetches at once.
replica.fetch.min.bytes | int | 1 | - | read-only | yes
    Bytes that a follower waits for.
replica.fetch.response.max.bytes | int | 10485760 | >=0 | read-only | yes
    Bytes in all that a follower fetches at once.
replica.fetch.wait.max.ms | int | 500 | - | read-only | yes
    Longest wait of a follower's fetch at the leader.
replica.high.watermark.checkpoint.interval.ms | long | 5000 | - | read-only | yes
    Time between writes of the high watermarks.
replica.lag.max.messages | long | 4000 | >=1 | read-only | no
    Messages behind after which a follower leaves the in-sync set, with the rules of Kafka 0.8 only.
replica.lag.time.max.ms | long | 10000 | - | read-only | yes
    Time without being caught up after which a follower leaves the in-sync set.
replica.selector.class | string | null | \
{org.apache.kafka.common.replica.RackAwareReplicaSelector, RackAwareReplicaSelector} \
| read-only | yes
    Who picks the replica that a consumer reads from: the leader alone serves, or one in its rack.
replica.socket.receive.buffer.bytes | int | 65536 | - | read-only | no
    Receive buffer of a follower's connections.
replica.socket.timeout.ms | int | 30000 | - | read-only | yes
    Time limit of a follower's requests.
replication.quota.window.num | int | 11 | >=1 | read-only | no
    Samples kept for replication quotas.
replication.quota.window.size.seconds | int | 1 | >=1 | read-only | no
    Length of one sample of the rate.
request.timeout.ms | int | 30000 | - | read-only | yes
    Time limit of the broker's own requests.
reserved.broker.max.id | int | 1000 | >=0 | read-only | yes
    Largest number that an operator may give a broker; generated ones lie above.
sasl.client.callback.handler.class | class | null | - | read-only | no
    Java class for the broker's own SASL logins.
sasl.enabled.mechanisms | list | GSSAPI | - | per-broker | start
    SASL mechanisms that clients may use.
sasl.jaas.config | password | null | - | per-broker | yes
    Login settings of SASL in JAAS form.
sasl.kerberos.kinit.cmd | string | /usr/bin/kinit | - | per-broker | no
    Path of kinit.
sasl.kerberos.min.time.before.relogin | long | 60000 | - | per-broker | no
    Shortest time between Kerberos logins.
sasl.kerberos.principal.to.local.rules | list | DEFAULT | - | per-broker | no
    Rules that make user names of Kerberos principals.
sasl.kerberos.service.name | string | null | - | per-broker | no
    Kerberos name of the broker.
sasl.kerberos.ticket.renew.jitter | double | 0.05 | - | per-broker | no
    Random part of the ticket renewal time.
sasl.kerberos.ticket.renew.window.factor | double | 0.8 | - | per-broker | no
    Part of a ticket's life after which it is renewed.
sasl.login.callback.handler.class | class | null | - | read-only | no
    Java class for SASL logins.
sasl.login.class | class | null | - | read-only | no
    Java class that does SASL logins.
sasl.login.connect.timeout.ms | int | null | - | read-only | no
    Time limit of connecting to a login provider.
sasl.login.read.timeout.ms | int | null | - | read-only | no
    Time limit of a login provider's answer.
sasl.login.refresh.buffer.seconds | short | 300 | - | per-broker | no
    Time before expiry at which a login is refreshed at the latest.
sasl.login.refresh.min.period.seconds | short | 60 | - | per-broker | no
    Shortest time between refreshes of a login.
sasl.login.refresh.window.factor | double | 0.8 | - | per-broker | no
    Part of a login's life after which it is refreshed.
sasl.login.refresh.window.jitter | double | 0.05 | - | per-broker | no
    Random part of that time.
sasl.login.retry.backoff.max.ms | long | 10000 | - | read-only | no
    Longest pause between attempts at a login provider.
sasl.login.retry.backoff.ms | long | 100 | - | read-only | no
    First pause between attempts at a login provider.
sasl.mechanism.controller.protocol | string | GSSAPI | - | read-only | no
    SASL mechanism towards KRaft controllers.
sasl.mechanism.inter.broker.protocol | string | GSSAPI | - | per-broker | start
    SASL mechanism among brokers.
sasl.oauthbearer.clock.skew.seconds | int | 30 | - | read-only | yes
    Difference of clocks that token checks allow.
sasl.oauthbearer.expected.audience | list | null | - | read-only | yes
    Audiences that a token may name.
sasl.oauthbearer.expected.issuer | string | null | - | read-only | yes
    Issuer that a token must name.
sasl.oauthbearer.jwks.endpoint.refresh.ms | long | 3600000 | - | read-only | yes
    Time between refreshes of the token keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000 | - | read-only | no
    Longest pause between attempts to get the keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100 | - | read-only | no
    First pause between attempts to get the keys.
sasl.oauthbearer.jwks.endpoint.url | string | null | - | read-only | yes
    Where the keys that verify tokens are.
sasl.oauthbearer.scope.claim.name | string | scope | - | read-only | yes
    Name of the scope in a token.
sasl.oauthbearer.sub.claim.name | string | sub | - | read-only | yes
    Name of the subject in a token.
sasl.oauthbearer.token.endpoint.url | string | null | - | read-only | no
    Where tokens are issued.
sasl.server.callback.handler.class | class | null | - | read-only | no
    Java class for SASL on the broker's side.
sasl.server.max.receive.size | int | 16384 | >=512 | read-only | yes
    Largest message before and during SASL authentication.
security.inter.broker.protocol | string | PLAINTEXT \
| {PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL} | read-only | yes
    Security protocol among brokers, where no listener is named for it.
security.providers | string | null | - | read-only | no
    Java classes that provide security algorithms.
socket.connection.setup.timeout.max.ms | long | 30000 | - | read-only | no
    Longest wait for a connection to another broker.
socket.connection.setup.timeout.ms | long | 10000 | - | read-only | no
    First wait for a connection to another broker.
socket.listen.backlog.size | int | 4096 | >=1 | read-only | yes
    Connections that may wait to be accepted, if the kernel (somaxconn) allows as many.
socket.receive.buffer.bytes | int | -1 | - | read-only | yes
    Receive buffer of connections; -1 leaves it to the kernel.
socket.request.max.bytes | int | 104857600 | >=1 | read-only | yes
    Largest request that is read.
socket.send.buffer.bytes | int | 102400 | - | read-only | yes
    Send buffer of connections; -1 leaves it to the kernel.
ssl.allow.dn.changes | bool | false | - | read-only | no
    Whether a new certificate may have another name.
ssl.allow.san.changes | bool | false | - | read-only | no
    Whether a new certificate may have other alternative names.
ssl.cipher.suites | list | "" | - | per-broker | yes
    TLS cipher suites that are allowed.
ssl.client.auth | string | none | {required, requested, none} | per-broker | yes
    Whether clients must show a certificate.
ssl.crl.location | string | null | - | per-broker | yes
    PEM file with the revocation lists of the authorities; revoked certificates are refused.
ssl.enabled.protocols | list | TLSv1.2,TLSv1.3 | - | per-broker | yes
    TLS versions that are allowed.
ssl.endpoint.identification.algorithm | string | https | - | per-broker | yes
    How a server's name is checked against its certificate.
ssl.engine.factory.class | class | null | - | per-broker | no
    Java class that makes TLS engines.
ssl.key.password | password | null | - | per-broker | yes
    Password of the private key.
ssl.keymanager.algorithm | string | SunX509 | - | per-broker | no
    Java's key manager algorithm.
ssl.keystore.certificate.chain | password | null | - | per-broker | yes
    Certificate chain in PEM form.
ssl.keystore.key | password | null | - | per-broker | yes
    Private key in PEM form.
ssl.keystore.location | string | null | - | per-broker | yes
    File with key and certificates.
ssl.keystore.password | password | null | - | per-broker | yes
    Password of that file.
ssl.keystore.type | string | JKS | - | per-broker | yes
    Format of that file.
ssl.principal.mapping.rules | string | DEFAULT | - | read-only | yes
    Rules that make user names of certificate names.
ssl.protocol | string | TLSv1.3 | - | per-broker | no
    TLS version to start from.
ssl.provider | string | null | - | per-broker | no
    Java's name of the TLS provider.
ssl.secure.random.implementation | string | null | - | per-broker | no
    Java's name of the random source for TLS.
ssl.trustmanager.algorithm | string | PKIX | - | per-broker | no
    Java's trust manager algorithm.
ssl.truststore.certificates | password | null | - | per-broker | yes
    Trusted certificates in PEM form.
ssl.truststore.location | string | null | - | per-broker | yes
    File with trusted certificates.
ssl.truststore.password | password | null | - | per-broker | yes
    Password of that file.
ssl.truststore.type | string | JKS | - | per-broker | yes
    Format of that file.
super.users | string | "" | principals | read-only | yes
    Principals that may do everything, such as User:admin;User:CN=broker-1,O=Example.
telemetry.max.bytes | int | 1048576 | >=1 | read-only | yes
    Largest metrics push of a client (KIP-714).
transaction.abort.timed.out.transaction.cleanup.interval.ms | int | 10000 | >=1 | read-only | yes
    Time between looks for transactions that have timed out.
transaction.max.timeout.ms | int | 900000 | >=1 | read-only | yes
    Longest transaction timeout a producer may ask for.
transaction.partition.verification.enable | bool | true | - | cluster-wide | yes
    Whether a partition checks with the coordinator that a transaction is open.
transaction.remove.expired.transaction.cleanup.interval.ms | int | 3600000 | >=1 | read-only | yes
    Time between looks for expired transactional ids.
transaction.state.log.load.buffer.size | int | 5242880 | >=1 | read-only | no
    Bytes per read when a transaction coordinator loads its partition.
transaction.state.log.min.isr | int | 2 | >=1 | read-only | yes
    Replicas that must have a write to the transactions topic.
transaction.state.log.num.partitions | int | 50 | >=1 | read-only | yes
    Partitions of the transactions topic.
transaction.state.log.replication.factor | short | 3 | >=1 | read-only | yes
    Replicas of the transactions topic.
transaction.state.log.segment.bytes | int | 104857600 | >=1 | read-only | yes
    Segment size of the transactions topic.
transactional.id.expiration.ms | int | 604800000 | >=1 | read-only | yes
    Silence after which a transactional id is forgotten.
unclean.leader.election.enable | bool | false | - | cluster-wide | yes
    Lets a replica that lacks acknowledged records lead when no other can.
unstable.api.versions.enable | bool | false | - | read-only | no
    Shows API versions that are still being developed.
unstable.feature.versions.enable | bool | false | - | read-only | no
    Shows feature levels that are still being developed.
zookeeper.clientCnxnSocket | string | null | - | read-only | no
    Java class of the ZooKeeper client's socket.
zookeeper.connect | string | null | - | read-only | yes
    ZooKeeper's addresses and root path; without it the broker keeps its own store.
zookeeper.connection.timeout.ms | int | null | - | read-only | yes
    Time limit of the first connection to ZooKeeper.
zookeeper.max.in.flight.requests | int | 10 | >=1 | read-only | no
    Unanswered requests to ZooKeeper.
zookeeper.metadata.migration.enable | bool | false | - | read-only | no
    Starts a migration to KRaft; there is no KRaft here.
zookeeper.session.timeout.ms | int | 18000 | - | read-only | yes
    Silence after which ZooKeeper ends the broker's session.
zookeeper.set.acl | bool | false | - | read-only | yes
    Whether nodes in ZooKeeper are the brokers' alone; needs ottla.zookeeper.digest.
zookeeper.ssl.cipher.suites | list | null | - | read-only | no
    TLS cipher suites towards ZooKeeper.
zookeeper.ssl.client.enable | bool | false | - | read-only | yes
    Whether TLS is used towards ZooKeeper, with keys and certificates in PEM files.
zookeeper.ssl.crl.enable | bool | false | - | read-only | no
    Checks certificates of ZooKeeper against revocation lists, which is not done here.
zookeeper.ssl.enabled.protocols | list | null | - | read-only | no
    TLS versions towards ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm | string | HTTPS | - | read-only | yes
    HTTPS checks that a ZooKeeper server's certificate is for its name; empty does not.
zookeeper.ssl.keystore.location | string | null | - | read-only | yes
    File with the key for ZooKeeper.
zookeeper.ssl.keystore.password | password | null | - | read-only | yes
    Password of that file.
zookeeper.ssl.keystore.type | string | null | - | read-only | yes
    Format of that file.
zookeeper.ssl.ocsp.enable | bool | false | - | read-only | no
    Checks certificates of ZooKeeper online, which is not done here.
zookeeper.ssl.protocol | string | TLSv1.2 | - | read-only | no
    TLS version to start from towards ZooKeeper.
zookeeper.ssl.truststore.location | string | null | - | read-only | yes
    File with certificates trusted for ZooKeeper.
zookeeper.ssl.truststore.password | password | null | - | read-only | no
    Password of that file.
zookeeper.ssl.truststore.type | string | null | - | read-only | yes
    Format of that file.
"""


def _read() -> Mapping[str, Definition]:
    definitions = []
    for columns, words in read_table(_TABLE):
        *facts, update, effect = columns
        definitions.append(define([*facts, effect, "-"], words, Update(update)))
    return MappingProxyType({definition.name: definition for definition in definitions})


BROKER_CONFIGS = _read()

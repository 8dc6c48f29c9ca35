import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group, Kafka's own client: orders as an argument, events on standard output. */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    /** Topic, partition and offset of where to go on; what standard input says before it ends. */
    private static final Queue<JsonNode> SEEKS = new ConcurrentLinkedQueue<>();
    private static volatile boolean leaving = false;

    private final PrintStream events;

    private GroupMember(PrintStream events) {
        this.events = events;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream events = System.out;
        // Whatever a logging library writes must not stand between the events.
        System.setOut(System.err);
        Thread watch = new Thread(() -> {
            try {
                BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    SEEKS.add(JSON.readTree(line));
                }
            } catch (IOException error) {
                // The other end is gone, too.
            }
            leaving = true;
        });
        watch.setDaemon(true);
        watch.start();
        new GroupMember(events).run(arguments[0], JSON.readTree(arguments[1]));
    }

    private void run(String bootstrap, JsonNode orders) throws Exception {
        List<String> topics = new ArrayList<>();
        orders.get("topics").forEach(topic -> topics.add(topic.asText()));
        long paceMs = orders.path("pace_ms").asLong(0);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings(bootstrap, orders),
                new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(topics, this);
            while (!leaving) {
                for (JsonNode to = SEEKS.poll(); to != null; to = SEEKS.poll()) {
                    consumer.seek(new TopicPartition(to.get(0).asText(), to.get(1).asInt()),
                        to.get(2).asLong());
                    tell(event("sought"));
                }
                ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
                if (found.isEmpty()) {
                    continue;
                }
                for (TopicPartition where : found.partitions()) {
                    tellRead(where, found.records(where));
                }
                try {
                    consumer.commitSync();
                } catch (CommitFailedException | RebalanceInProgressException error) {
                    tell(event("commit failed").put("text", error.toString()));
                }
                Thread.sleep(paceMs);
            }
        }
        tell(event("left"));
    }

    private static Map<String, Object> settings(String bootstrap, JsonNode orders) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", orders.get("group").asText());
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", 2_000);
        settings.put("max.poll.records", orders.path("batch").asInt(500));
        if (orders.hasNonNull("instance")) {
            settings.put("group.instance.id", orders.get("instance").asText());
        }
        String strategy = orders.get("strategy").asText();
        if (orders.path("protocol").asText("classic").equals("consumer")) {
            settings.put("group.protocol", "consumer");
            settings.put("group.remote.assignor", strategy);
        } else {
            settings.put("partition.assignment.strategy", ASSIGNORS.get(strategy));
            settings.put("session.timeout.ms", orders.path("session_ms").asInt(10_000));
            settings.put("heartbeat.interval.ms", orders.path("heartbeat_ms").asInt(300));
        }
        return settings;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        tellPartitions("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        tellPartitions("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        tellPartitions("lost", partitions);
    }

    private void tellPartitions(String name, Collection<TopicPartition> partitions) {
        if (partitions.isEmpty()) {
            return;
        }
        ObjectNode event = event(name);
        ArrayNode all = event.putArray("partitions");
        partitions.forEach(where -> all.addArray().add(where.topic()).add(where.partition()));
        tell(event);
    }

    private void tellRead(TopicPartition where, List<ConsumerRecord<byte[], byte[]>> records) {
        tell(event("read")
            .put("topic", where.topic())
            .put("partition", where.partition())
            .put("first", records.get(0).offset())
            .put("last", records.get(records.size() - 1).offset())
            .put("count", records.size()));
    }

    /** With a time of the machine's monotonic clock, which is what nanoTime reads on Linux. */
    private static ObjectNode event(String name) {
        return JSON.createObjectNode().put("event", name).put("time", System.nanoTime() / 1e9);
    }

    private void tell(ObjectNode event) {
        events.println(event);
        events.flush();
    }
}

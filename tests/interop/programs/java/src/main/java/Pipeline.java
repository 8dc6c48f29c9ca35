import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A consume-transform-produce pipeline, Kafka's own clients. */
public final class Pipeline {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static volatile boolean leaving = false;

    private final PrintStream events;
    private final JsonNode orders;
    private final KafkaProducer<String, String> producer;
    private final KafkaConsumer<String, String> consumer;

    private Pipeline(PrintStream events, String bootstrap, JsonNode orders) {
        this.events = events;
        this.orders = orders;
        Map<String, Object> writing = new HashMap<>();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("transactional.id", orders.get("transactional_id").asText());
        writing.put("transaction.timeout.ms", orders.get("transaction_timeout_ms").asInt());
        writing.put("linger.ms", 5);
        producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer());
        Map<String, Object> reading = new HashMap<>();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", orders.get("group").asText());
        reading.put("isolation.level", "read_committed");
        reading.put("enable.auto.commit", false);
        reading.put("auto.offset.reset", "earliest");
        reading.put("session.timeout.ms", orders.get("session_ms").asInt());
        reading.put("heartbeat.interval.ms", 500);
        reading.put("max.poll.records", orders.get("batch").asInt());
        consumer = new KafkaConsumer<>(
            reading, new StringDeserializer(), new StringDeserializer());
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream events = System.out;
        // Whatever a logging library writes must not stand between the events.
        System.setOut(System.err);
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException error) {
                // The other end is gone, too.
            }
            leaving = true;
        });
        watch.setDaemon(true);
        watch.start();
        try {
            new Pipeline(events, arguments[0], JSON.readTree(arguments[1])).run();
        } catch (Throwable error) {
            error.printStackTrace();
            // Threads of the clients would keep the process alive.
            Runtime.getRuntime().halt(1);
        }
    }

    private void run() {
        producer.initTransactions();
        consumer.subscribe(java.util.List.of(orders.get("source").asText()));
        tell(JSON.createObjectNode().put("event", "ready"));
        while (!leaving) {
            ConsumerRecords<String, String> found = consumer.poll(Duration.ofMillis(500));
            if (!found.isEmpty()) {
                step(found);
            }
        }
        consumer.close();
        producer.close();
        tell(JSON.createObjectNode().put("event", "left"));
    }

    private void step(ConsumerRecords<String, String> found) {
        try {
            carry(found);
            tell(JSON.createObjectNode().put("event", "committed").put("count", found.count()));
        } catch (ProducerFencedException | OutOfOrderSequenceException
                | AuthorizationException error) {
            throw error;
        } catch (KafkaException error) {
            tell(JSON.createObjectNode().put("event", "aborting").put("text", error.toString()));
            producer.abortTransaction();
            rewind();
        }
    }

    private void carry(ConsumerRecords<String, String> found) {
        String target = orders.get("target").asText();
        int partitions = orders.get("target_partitions").asInt();
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : found) {
            String value = record.value();
            int place = Integer.parseInt(value.substring(value.indexOf(':') + 1)) % partitions;
            producer.send(new ProducerRecord<>(target, place, null, value));
            ends.put(new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
        producer.commitTransaction();
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed =
            consumer.committed(consumer.assignment());
        for (TopicPartition where : consumer.assignment()) {
            OffsetAndMetadata known = committed.get(where);
            consumer.seek(where, known == null ? 0 : known.offset());
        }
    }

    private void tell(ObjectNode event) {
        events.println(event.put("time", System.nanoTime() / 1e9));
        events.flush();
    }
}

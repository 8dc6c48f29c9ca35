import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Kafka's own client, any version: steps on standard input, results on standard output. */
public final class Steps {
    private static final long WAIT_S = 15;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Object> address;
    private final Admin admin;

    private Steps(String bootstrap) {
        address = Map.of("bootstrap.servers", bootstrap);
        admin = Admin.create(address);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream results = System.out;
        // Whatever a logging library writes must not stand between the results.
        System.setOut(System.err);
        Steps steps = new Steps(arguments[0]);
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode result = JSON.createObjectNode();
            try {
                steps.serve(JSON.readTree(line), result);
            } catch (Exception error) {
                error.printStackTrace();
                result.put("error", error.toString());
            }
            results.println(JSON.writeValueAsString(result));
            results.flush();
        }
        System.exit(0);
    }

    private void serve(JsonNode step, ObjectNode result) throws Exception {
        switch (step.get("do").asText()) {
            case "hello" -> result.put("client", "java").put("version", AppInfoParser.getVersion());
            case "produce" -> produce(step);
            case "consume" -> consume(step, result);
            case "offsets" -> offsets(step, result);
            case "create" -> create(step);
            case "delete" -> await(admin.deleteTopics(List.of(topic(step))).all());
            case "topics" -> {
                ArrayNode names = result.putArray("topics");
                new TreeSet<>(await(admin.listTopics().names())).forEach(names::add);
            }
            case "describe" -> result.put("partitions",
                await(admin.describeTopics(List.of(topic(step))).allTopicNames())
                    .get(topic(step)).partitions().size());
            case "grow" -> await(admin.createPartitions(
                Map.of(topic(step), NewPartitions.increaseTo(step.get("partitions").asInt()))).all());
            case "describe_configs" -> {
                ConfigResource resource = resource(step);
                ObjectNode config = result.putObject("config");
                await(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()
                    .forEach(entry -> config.put(entry.name(), entry.value()));
            }
            case "alter_configs" -> alterConfigs(step);
            case "incremental_alter_configs" -> {
                Collection<AlterConfigOp> changes = new ArrayList<>();
                config(step).forEach((name, value) -> changes.add(
                    new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
                await(admin.incrementalAlterConfigs(Map.of(resource(step), changes)).all());
            }
            case "delete_records" -> {
                TopicPartition where = new TopicPartition(topic(step), 0);
                RecordsToDelete before = RecordsToDelete.beforeOffset(step.get("before").asLong());
                result.put("low_watermark", await(
                    admin.deleteRecords(Map.of(where, before)).lowWatermarks().get(where))
                    .lowWatermark());
            }
            default -> result.put("error", "no such step");
        }
    }

    private static <T> T await(KafkaFuture<T> future) throws Exception {
        return future.get(WAIT_S, TimeUnit.SECONDS);
    }

    private static String topic(JsonNode step) {
        return step.get("topic").asText();
    }

    private static ConfigResource resource(JsonNode step) {
        return step.has("broker")
            ? new ConfigResource(ConfigResource.Type.BROKER, step.get("broker").asText())
            : new ConfigResource(ConfigResource.Type.TOPIC, topic(step));
    }

    private static Map<String, String> config(JsonNode step) {
        Map<String, String> found = new HashMap<>();
        step.get("config").fields().forEachRemaining(
            one -> found.put(one.getKey(), one.getValue().asText()));
        return found;
    }

    private void create(JsonNode step) throws Exception {
        NewTopic wanted = new NewTopic(topic(step), step.get("partitions").asInt(), (short) 1)
            .configs(config(step));
        await(admin.createTopics(List.of(wanted)).all());
    }

    /** Kafka 4 has taken this call away, so it cannot be named here. */
    private void alterConfigs(JsonNode step) throws Exception {
        Collection<ConfigEntry> entries = new ArrayList<>();
        config(step).forEach((name, value) -> entries.add(new ConfigEntry(name, value)));
        Object outcome = Admin.class.getMethod("alterConfigs", Map.class)
            .invoke(admin, Map.of(resource(step), new Config(entries)));
        await((KafkaFuture<?>) outcome.getClass().getMethod("all").invoke(outcome));
    }

    private void produce(JsonNode step) throws Exception {
        Map<String, Object> settings = new HashMap<>(address);
        settings.put("compression.type", step.get("codec").asText());
        settings.put("acks", step.get("acks").asText());
        settings.put("enable.idempotence", step.get("idempotent").asBoolean());
        settings.put("linger.ms", 20);
        settings.put("max.block.ms", WAIT_S * 1000);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode record : step.get("records")) {
                ProducerRecord<byte[], byte[]> one = new ProducerRecord<>(topic(step), 0,
                    record.get("timestamp").asLong(), bytes(record.get("key")),
                    bytes(record.get("value")));
                for (JsonNode header : record.get("headers")) {
                    one.headers().add(header.get(0).asText(), bytes(header.get(1)));
                }
                sent.add(producer.send(one));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(WAIT_S, TimeUnit.SECONDS);
            }
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = new HashMap<>(address);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        return new KafkaConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private void consume(JsonNode step, ObjectNode result) {
        ArrayNode records = result.putArray("records");
        int count = step.get("count").asInt();
        TopicPartition where = new TopicPartition(topic(step), 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(Set.of(where));
            consumer.seek(where, step.get("offset").asLong());
            long deadline = System.currentTimeMillis() + WAIT_S * 1000;
            while (records.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofSeconds(1))) {
                    if (records.size() < count) {
                        write(one, records.addObject());
                    }
                }
            }
        }
    }

    private static void write(ConsumerRecord<byte[], byte[]> record, ObjectNode out) {
        out.put("offset", record.offset()).put("timestamp", record.timestamp());
        out.put("key", text(record.key())).put("value", text(record.value()));
        ArrayNode headers = out.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
    }

    private void offsets(JsonNode step, ObjectNode result) {
        TopicPartition where = new TopicPartition(topic(step), 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            result.put("first", consumer.beginningOffsets(Set.of(where)).get(where));
            result.put("last", consumer.endOffsets(Set.of(where)).get(where));
            ArrayNode found = result.putArray("offsets");
            for (JsonNode at : step.get("at")) {
                OffsetAndTimestamp one =
                    consumer.offsetsForTimes(Map.of(where, at.asLong())).get(where);
                found.add(one == null ? -1 : one.offset());
            }
        }
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StreamPartitioner;

/** The pipeline as a topology of Kafka Streams, exactly_once_v2. */
public final class StreamsPipeline {
    private static final ObjectMapper JSON = new ObjectMapper();

    private StreamsPipeline() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream events = System.out;
        System.setOut(System.err);
        JsonNode orders = JSON.readTree(arguments[1]);
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, orders.get("group").asText());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATE_DIR_CONFIG,
            Files.createTempDirectory("streams").toString());
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"),
            orders.get("session_ms").asInt());
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        settings.put(StreamsConfig.consumerPrefix("max.poll.records"),
            orders.get("batch").asInt());
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"),
            orders.get("transaction_timeout_ms").asInt());

        AtomicLong carried = new AtomicLong();
        StreamsBuilder builder = new StreamsBuilder();
        StreamPartitioner<byte[], String> places = new ByNumber();
        builder.stream(orders.get("source").asText(),
                Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .peek((key, value) -> carried.incrementAndGet())
            .to(orders.get("target").asText(),
                Produced.with(Serdes.ByteArray(), Serdes.String(), places));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        CountDownLatch leaving = new CountDownLatch(1);
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (IOException error) {
                // The other end is gone, too.
            }
            leaving.countDown();
        });
        watch.setDaemon(true);
        watch.start();
        streams.start();
        long known = 0;
        while (leaving.getCount() > 0) {
            Thread.sleep(200);
            long now = carried.get();
            if (now != known) {
                // Not known to be committed: it does not tell when it does that.
                events.println(JSON.createObjectNode().put("event", "committed")
                    .put("time", System.nanoTime() / 1e9).put("count", now - known));
                events.flush();
                known = now;
            }
        }
        streams.close();
    }

    private static final class ByNumber implements StreamPartitioner<byte[], String> {
        @Override
        public java.util.Optional<java.util.Set<Integer>> partitions(
                String topic, byte[] key, String value, int count) {
            int number = Integer.parseInt(value.substring(value.indexOf(':') + 1));
            return java.util.Optional.of(java.util.Set.of(number % count));
        }

        @SuppressWarnings("removal")
        public Integer partition(String topic, byte[] key, String value, int count) {
            return partitions(topic, key, value, count).get().iterator().next();
        }
    }
}

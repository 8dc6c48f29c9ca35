// Divides partitions with Apache Kafka's own assignors: one case per line in, one answer per line out.
//
//   range|m1,instance,rack,t+u;m2,,,t|t=xy/x/y;u=x    members, then racks of each partition's replicas
//   m1=t-0,t-1;m2=t-2

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assign {
    static ConsumerPartitionAssignor named(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    static Optional<String> unlessEmpty(String text) {
        return text.isEmpty() ? Optional.empty() : Optional.of(text);
    }

    static String solve(String line) {
        String[] parts = line.split("\\|", -1);
        Map<String, ConsumerPartitionAssignor.Subscription> members = new TreeMap<>();
        for (String one : parts[1].split(";")) {
            String[] said = one.split(",", -1);
            List<String> topics = said[3].isEmpty()
                ? Collections.emptyList() : Arrays.asList(said[3].split("\\+"));
            ConsumerPartitionAssignor.Subscription subscription =
                new ConsumerPartitionAssignor.Subscription(
                    topics, null, Collections.emptyList(), -1, unlessEmpty(said[2]));
            subscription.setGroupInstanceId(unlessEmpty(said[1]));
            members.put(said[0], subscription);
        }
        Map<Character, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String one : parts[2].split(";")) {
            String topic = one.substring(0, one.indexOf('='));
            String[] racks = one.substring(one.indexOf('=') + 1).split("/", -1);
            for (int number = 0; number < racks.length; number++) {
                List<Node> replicas = new ArrayList<>();
                for (char rack : racks[number].toCharArray())
                    replicas.add(nodes.computeIfAbsent(
                        rack, r -> new Node(r, "host", 1, String.valueOf(r))));
                Node[] array = replicas.toArray(new Node[0]);
                Node leader = array.length == 0 ? Node.noNode() : array[0];
                partitions.add(new PartitionInfo(topic, number, leader, array, array));
            }
        }
        Cluster cluster = new Cluster(
            "c", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
        Map<String, ConsumerPartitionAssignor.Assignment> found = new TreeMap<>(
            named(parts[0]).assign(cluster, new ConsumerPartitionAssignor.GroupSubscription(members))
                .groupAssignment());
        List<String> answers = new ArrayList<>();
        found.forEach((member, assignment) -> {
            List<String> names = new ArrayList<>();
            for (TopicPartition one : assignment.partitions())
                names.add(one.topic() + "p" + one.partition());
            Collections.sort(names);
            answers.add(member + "=" + String.join(",", names));
        });
        return String.join(";", answers);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine())
            System.out.println(solve(line));
    }
}

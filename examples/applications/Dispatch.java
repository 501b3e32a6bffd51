// An application on Kafka: it gives each truck that reports a job, and hears what became of it.
// Several of them share the work, as one consumer group. Needs kafka-clients; run it with the address of Kafka.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Dispatch {
    public static void main(String[] arguments) {
        var reading = new Properties();
        reading.put("bootstrap.servers", arguments[0]);
        reading.put("group.id", "dispatch");
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        reading.put("isolation.level", "read_committed");
        // Gateways make the topics, with as many partitions as they need; whoever asks for one before that has Kafka make it.
        reading.put("allow.auto.create.topics", "false");
        var writing = new Properties();
        writing.put("bootstrap.servers", arguments[0]);
        writing.put("acks", "all");
        var deserializer = new StringDeserializer();
        var serializer = new StringSerializer();
        try (var consumer = new KafkaConsumer<>(reading, deserializer, deserializer);
                var producer = new KafkaProducer<>(writing, serializer, serializer)) {
            consumer.subscribe(List.of("tidegate.AppModel"));
            while (true) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    if (!"dispatch".equals(header(record.headers(), "recipient"))) {
                        continue;
                    }
                    if ("receipts".equals(header(record.headers(), "topic"))) {
                        System.out.println("receipt " + record.value());
                        continue;
                    }
                    System.out.println(record.key() + " says " + record.value());
                    var job = new ProducerRecord<>("tidegate.PrivateMessageTopic", record.key(), "load timber");
                    put(job.headers(), "topic", "job");
                    put(job.headers(), "expiry", "600");
                    put(job.headers(), "receipt", "all");
                    put(job.headers(), "response-topic", "ctx/to/app/dispatch/receipts");
                    producer.send(job);
                }
                // What was read is done when what follows from it is on Kafka.
                producer.flush();
                consumer.commitSync();
            }
        }
    }

    private static String header(Headers headers, String name) {
        var found = headers.lastHeader(name);
        return found == null ? null : new String(found.value(), StandardCharsets.UTF_8);
    }

    private static void put(Headers headers, String name, String value) {
        headers.add(name, value.getBytes(StandardCharsets.UTF_8));
    }
}

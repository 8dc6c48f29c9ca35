"""Authorization of requests by Kafka's access control lists."""

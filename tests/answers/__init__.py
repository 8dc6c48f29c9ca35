"""What Apache Kafka answers to some hundreds of requests, recorded, and what our broker answers."""

"""Tests of what brings up three brokers and a ZooKeeper: docker-compose.yml and Dockerfile."""

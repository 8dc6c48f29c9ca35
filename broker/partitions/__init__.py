"""The partitions that this broker hosts: produce, fetch, roles and the ISR."""

"""SASL: both sides of each mechanism, as steps from bytes to bytes without I/O."""

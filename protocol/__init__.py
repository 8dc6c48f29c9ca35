"""The wire: bytes to values and back, without I/O.

Read ports, errors, primitives, schema, compile; then messages/ and records/.
"""

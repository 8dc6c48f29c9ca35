"""The compiled record codec as one module: the twin of codec_pure.py, function for function.

Importing it raises ImportError where it has not been built. See codec.py, which chooses.
"""

from __future__ import annotations

from ottla.protocol.records.compiled_columns import decode_columns, decode_columns_in_place
from ottla.protocol.records.compiled_encoding import encode_columns, encode_entries, encode_values
from ottla.protocol.records.compiled_rows import (
    decode_as,
    decode_records,
    decode_values,
    value_ends,
)

__all__ = [
    "decode_as",
    "decode_columns",
    "decode_columns_in_place",
    "decode_records",
    "decode_values",
    "encode_columns",
    "encode_entries",
    "encode_values",
    "value_ends",
]

"""Two Protobuf files, as a registry gives them.

    message Note { string text = 1; }

and a file that imports it, in which the second message holds a third:

    message Other {}
    message Order {
        int64 order_id = 1; Note note = 2; google.protobuf.Timestamp at = 3;
        message Line { int32 n = 1; }
    }
"""

from __future__ import annotations

import base64

from google.protobuf import descriptor_pb2

MESSAGE = descriptor_pb2.DescriptorProto
FIELD = descriptor_pb2.FieldDescriptorProto
LABEL = FIELD.LABEL_OPTIONAL


def serialized(file: descriptor_pb2.FileDescriptorProto) -> str:
    """The file in base64."""
    return base64.b64encode(file.SerializeToString()).decode()


def message_field(name: str, number: int, type_name: str) -> descriptor_pb2.FieldDescriptorProto:
    """A field that holds a message."""
    kind = FIELD.TYPE_MESSAGE
    return FIELD(name=name, number=number, type=kind, type_name=type_name, label=LABEL)


NOTE_FILE = serialized(
    descriptor_pb2.FileDescriptorProto(
        name="any.proto",
        package="shop",
        syntax="proto3",
        message_type=[
            MESSAGE(
                name="Note",
                field=[FIELD(name="text", number=1, type=FIELD.TYPE_STRING, label=LABEL)],
            )
        ],
    )
)
ORDER_FILE = serialized(
    descriptor_pb2.FileDescriptorProto(
        name="default",
        package="shop",
        syntax="proto3",
        dependency=["note.proto", "google/protobuf/timestamp.proto"],
        message_type=[
            MESSAGE(name="Other"),
            MESSAGE(
                name="Order",
                field=[
                    FIELD(name="order_id", number=1, type=FIELD.TYPE_INT64, label=LABEL),
                    message_field("note", 2, ".shop.Note"),
                    message_field("at", 3, ".google.protobuf.Timestamp"),
                ],
                nested_type=[
                    MESSAGE(
                        name="Line",
                        field=[FIELD(name="n", number=1, type=FIELD.TYPE_INT32, label=LABEL)],
                    )
                ],
            ),
        ],
    )
)

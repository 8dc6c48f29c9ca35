from ottla.protocol.ports import Buffer

SOURCE_CRC: int

def crc32c(data: Buffer, value: int = 0, /) -> int: ...

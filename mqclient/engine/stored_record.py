"""Writes a message in stored form, which `decode_messages` reads. Rule: `MessageDecoder.decode`.

length, magic, CRC of the body, queue id, flag, queue offset, physical offset, system flag, birth
(time, host), store (time, host), redeliveries, transaction offset; then body, topic and properties,
each after its length. All big-endian.
"""

import struct
import zlib

from mqcommon.wire.codes import MessageSysFlag

__all__ = ["NO_HOST", "stored_record"]

NO_HOST = bytes(8)
"""An address that is not known: IPv4 and port, all zeros."""
_MAGIC = 0xDAA320A7
_IPV4_BYTES = 8


def stored_record(
    topic: str,
    body: bytes,
    properties: str,
    *,
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_ms: int,
    store_ms: int,
    born_host: bytes = NO_HOST,
    store_host: bytes = NO_HOST,
    reconsume_times: int = 0,
) -> bytes:
    """The bytes of one message. born_host, store_host: packed address and 4 bytes of port."""
    name, text = topic.encode(), properties.encode()
    sys_flag &= ~(MessageSysFlag.BORN_HOST_V6 | MessageSysFlag.STORE_HOST_V6)
    sys_flag |= MessageSysFlag.BORN_HOST_V6 if len(born_host) > _IPV4_BYTES else 0
    sys_flag |= MessageSysFlag.STORE_HOST_V6 if len(store_host) > _IPV4_BYTES else 0
    parts = (
        struct.pack(">IIii", _MAGIC, zlib.crc32(body) & 0x7FFFFFFF, queue_id, flag),
        struct.pack(">qqiq", queue_offset, physical_offset, sys_flag, born_ms),
        born_host,
        struct.pack(">q", store_ms),
        store_host,
        struct.pack(">iqi", reconsume_times, 0, len(body)),
        body,
        struct.pack(">B", len(name)),
        name,
        struct.pack(">h", len(text)),
        text,
    )
    return struct.pack(">i", 4 + sum(map(len, parts))) + b"".join(parts)

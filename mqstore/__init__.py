"""RocketMQ's store on disk: messages, the engine that writes them, and read-only tools.

`open(path)` reads a store directory without changing it, whether a broker runs on it or not.
`Store` is the engine of a broker. Names are imported at their first use, so that importing the
package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqcommon.message import (
        DecodeError,
        Message,
        MessageQueue,
        OffsetMessageId,
        ReceivedMessage,
        decode_messages,
        decode_properties,
        decompress_body,
        encode_properties,
        offset_msg_id,
        parse_offset_msg_id,
        unique_id,
    )
    from mqstore.errors import (
        SettingError,
        StoreDamaged,
        StoreError,
        StoreLocked,
        StorePoisoned,
        UnknownLayout,
    )
    from mqstore.offline import (
        Checkpoint,
        Chunk,
        Condition,
        Finding,
        Gap,
        GroupOutlook,
        IndexView,
        Layout,
        QueueSummary,
        QueueView,
        RepairReport,
        StoreReader,
        StoreStat,
        VerifyReport,
        Wanted,
        open,
        rebuild,
        repair,
    )
    from mqstore.store import (
        GetResult,
        PutResult,
        QueryResult,
        Settings,
        Store,
        bloom_bits,
        check_sql,
    )

    __version__: str

_HOMES = {
    "Checkpoint": "mqstore.offline",
    "Chunk": "mqstore.offline",
    "Condition": "mqstore.offline",
    "DecodeError": "mqcommon.message",
    "Finding": "mqstore.offline",
    "Gap": "mqstore.offline",
    "GetResult": "mqstore.store",
    "GroupOutlook": "mqstore.offline",
    "IndexView": "mqstore.offline",
    "Layout": "mqstore.offline",
    "Message": "mqcommon.message",
    "MessageQueue": "mqcommon.message",
    "OffsetMessageId": "mqcommon.message",
    "PutResult": "mqstore.store",
    "QueryResult": "mqstore.store",
    "QueueSummary": "mqstore.offline",
    "QueueView": "mqstore.offline",
    "ReceivedMessage": "mqcommon.message",
    "RepairReport": "mqstore.offline",
    "SettingError": "mqstore.errors",
    "Settings": "mqstore.store",
    "Store": "mqstore.store",
    "StoreDamaged": "mqstore.errors",
    "StoreError": "mqstore.errors",
    "StoreLocked": "mqstore.errors",
    "StorePoisoned": "mqstore.errors",
    "StoreReader": "mqstore.offline",
    "StoreStat": "mqstore.offline",
    "UnknownLayout": "mqstore.errors",
    "VerifyReport": "mqstore.offline",
    "Wanted": "mqstore.offline",
    "bloom_bits": "mqstore.store",
    "check_sql": "mqstore.store",
    "decode_messages": "mqcommon.message",
    "decode_properties": "mqcommon.message",
    "decompress_body": "mqcommon.message",
    "encode_properties": "mqcommon.message",
    "offset_msg_id": "mqcommon.message",
    "open": "mqstore.offline",
    "parse_offset_msg_id": "mqcommon.message",
    "rebuild": "mqstore.offline",
    "repair": "mqstore.offline",
    "unique_id": "mqcommon.message",
}

__all__ = [
    "Checkpoint",
    "Chunk",
    "Condition",
    "DecodeError",
    "Finding",
    "Gap",
    "GetResult",
    "GroupOutlook",
    "IndexView",
    "Layout",
    "Message",
    "MessageQueue",
    "OffsetMessageId",
    "PutResult",
    "QueryResult",
    "QueueSummary",
    "QueueView",
    "ReceivedMessage",
    "RepairReport",
    "SettingError",
    "Settings",
    "Store",
    "StoreDamaged",
    "StoreError",
    "StoreLocked",
    "StorePoisoned",
    "StoreReader",
    "StoreStat",
    "UnknownLayout",
    "VerifyReport",
    "Wanted",
    "bloom_bits",
    "check_sql",
    "decode_messages",
    "decode_properties",
    "decompress_body",
    "encode_properties",
    "offset_msg_id",
    "open",
    "parse_offset_msg_id",
    "rebuild",
    "repair",
    "unique_id",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from mqcommon.version import version

        return version()
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

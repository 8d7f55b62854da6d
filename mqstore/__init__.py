"""RocketMQ's store on disk: messages, the engine that writes them, and read-only tools.

`open(path)` reads a store directory without changing it, whether a broker runs on it or not.
`Store` is the engine of a broker. Names are imported at their first use, so that importing the
package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqstore.errors import (
        SettingError,
        StoreDamaged,
        StoreError,
        StoreLocked,
        StorePoisoned,
        UnknownLayout,
    )
    from mqstore.message import (
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
    "Checkpoint": "offline",
    "Chunk": "offline",
    "Condition": "offline",
    "DecodeError": "message",
    "Finding": "offline",
    "Gap": "offline",
    "GetResult": "store",
    "GroupOutlook": "offline",
    "IndexView": "offline",
    "Layout": "offline",
    "Message": "message",
    "MessageQueue": "message",
    "OffsetMessageId": "message",
    "PutResult": "store",
    "QueryResult": "store",
    "QueueSummary": "offline",
    "QueueView": "offline",
    "ReceivedMessage": "message",
    "RepairReport": "offline",
    "SettingError": "errors",
    "Settings": "store",
    "Store": "store",
    "StoreDamaged": "errors",
    "StoreError": "errors",
    "StoreLocked": "errors",
    "StorePoisoned": "errors",
    "StoreReader": "offline",
    "StoreStat": "offline",
    "UnknownLayout": "errors",
    "VerifyReport": "offline",
    "Wanted": "offline",
    "bloom_bits": "store",
    "check_sql": "store",
    "decode_messages": "message",
    "decode_properties": "message",
    "decompress_body": "message",
    "encode_properties": "message",
    "offset_msg_id": "message",
    "open": "offline",
    "parse_offset_msg_id": "message",
    "rebuild": "offline",
    "repair": "offline",
    "unique_id": "message",
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
        from mqstore.version import version

        return version()
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"mqstore.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

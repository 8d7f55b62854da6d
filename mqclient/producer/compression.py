"""Compression of bodies, and the bits of a message's system flag that name it.

Rules: RocketMQ `CompressionType`, `MessageSysFlag` and `CompressorFactory`. Bodies are decompressed
by `mqcommon.message.decompress_body`, which limits the decompressed size.
"""

import zlib
from typing import Any

from mqclient.settings.values import Compression
from mqcommon import extras
from mqcommon.wire.codes import MessageSysFlag

__all__ = ["compress"]

_FLAGS = {
    "zlib": int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZLIB),
    "lz4": int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_LZ4),
    "zstd": int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZSTD),
}


def compress(body: bytes, how: Compression) -> tuple[bytes, int]:
    """The compressed body and its system flag. LZ4 has one speed, whatever the level."""
    kind, level = how.method, how.level
    if kind == "lz4":
        lz4_frame: Any = extras.load("lz4.frame", "Compression('lz4')")
        packed: bytes = lz4_frame.compress(body)
    elif kind == "zstd":
        import zstandard

        packed = zstandard.ZstdCompressor(level=level).compress(body)
    else:
        packed = zlib.compress(body, level)
    return packed, _FLAGS[kind]

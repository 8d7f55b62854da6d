"""Compression of bodies, and the bits of a message's system flag that name it.

Rules: RocketMQ `CompressionType`, `MessageSysFlag` and `CompressorFactory`. Bodies are decompressed
by `mqcommon.message.decompress_body`, which limits the decompressed size.
"""

import zlib
from typing import Any, Literal

from mqcommon import extras
from mqcommon.wire.codes import MessageSysFlag

__all__ = ["Compression", "check_compression", "compress"]

Compression = Literal["zlib", "lz4", "zstd"]
_LEVELS = {"zlib": (0, 9), "lz4": (0, 22), "zstd": (1, 22)}
_FLAGS = {
    "zlib": int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZLIB),
    "lz4": int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_LZ4),
    "zstd": int(MessageSysFlag.COMPRESSED | MessageSysFlag.COMPRESSION_ZSTD),
}


def check_compression(kind: str) -> tuple[int, int]:
    """The lowest and the highest level of a compression.

    Raises ValueError for an unknown one, ImportError if its package is not installed.
    """
    if kind not in _LEVELS:
        raise ValueError(f"compression must be one of {', '.join(_LEVELS)}, not {kind!r}")
    if kind == "lz4":
        extras.load("lz4.frame", "compression='lz4'")
    return _LEVELS[kind]


def compress(body: bytes, kind: Compression, level: int) -> tuple[bytes, int]:
    """The compressed body and its system flag. level: of zlib or zstd; LZ4 has one speed."""
    if kind == "lz4":
        lz4_frame: Any = extras.load("lz4.frame", "compression='lz4'")
        packed: bytes = lz4_frame.compress(body)
    elif kind == "zstd":
        import zstandard

        packed = zstandard.ZstdCompressor(level=level).compress(body)
    else:
        packed = zlib.compress(body, level)
    return packed, _FLAGS[kind]

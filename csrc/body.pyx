# Decompresses stored bodies, by the type bits of the system flag.

BODY_BYTES_MAX = 64 << 20  # a decompressed body may not be larger


cdef object _whole(object unpacker, object unpacked, str name):
    """Check that the decompressor reached the end of its stream or stopped at the size limit."""
    if len(unpacked) <= BODY_BYTES_MAX and not unpacker.eof:
        raise ValueError(f"the {name} stream is cut short")
    return unpacked


cdef object _unpack_zlib(object body):
    import zlib

    unpacker = zlib.decompressobj()
    return _whole(unpacker, unpacker.decompress(body, BODY_BYTES_MAX + 1), "zlib")


cdef object _unpack_lz4(object body):
    try:
        import lz4.frame
    except ImportError:
        raise DecodeError("the body is LZ4: install the package lz4 to read it, "
                          "pip install 'mqstack[lz4]'") from None
    unpacker = lz4.frame.LZ4FrameDecompressor()
    return _whole(unpacker, unpacker.decompress(body, BODY_BYTES_MAX + 1), "LZ4")


cdef object _unpack_zstd(object body):
    try:
        import zstandard
    except ImportError:
        raise DecodeError("the body is zstd: install the package zstandard to read it") from None
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    unpacked = bytearray()
    cdef Py_ssize_t at
    for at in range(0, len(body), 512):  # small steps: a block of 4 bytes may become 128 KiB
        unpacked += unpacker.decompress(body[at:at + 512])
        if unpacker.eof or len(unpacked) > BODY_BYTES_MAX:
            break
    return _whole(unpacker, bytes(unpacked), "zstd")


def decompress_body(bytes body not None, int32_t sys_flag):
    """Undo the compression that a system flag names; a plain body is returned as it is.

    sys_flag: RocketMQ's flag of the message (1 compressed; type bits 0x700).
    Raises DecodeError when the bytes do not decompress, need a package that is not
    installed, or grow beyond BODY_BYTES_MAX (64 MiB).
    """
    cdef int32_t kind = sys_flag & COMPRESSION_TYPE
    if not sys_flag & COMPRESSED:
        return body
    if kind != 0 and kind != COMPRESSION_LZ4 and kind != COMPRESSION_ZSTD \
            and kind != COMPRESSION_ZLIB:
        raise DecodeError(f"unknown compression type 0x{kind:X} in system flag {sys_flag}")
    try:
        if kind == COMPRESSION_LZ4:
            unpacked = _unpack_lz4(body)
        elif kind == COMPRESSION_ZSTD:
            unpacked = _unpack_zstd(body)
        else:
            unpacked = _unpack_zlib(body)
    except DecodeError:
        raise
    except Exception as error:  # each package has its own error class
        raise DecodeError(f"the compressed body of {len(body)} bytes does not decompress: "
                          f"{error}") from error
    if len(unpacked) > BODY_BYTES_MAX:
        raise DecodeError(f"the body grows beyond {BODY_BYTES_MAX} bytes when decompressed")
    return unpacked

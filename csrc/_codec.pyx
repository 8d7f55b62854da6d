# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# cython: auto_pickle=False, autotestdict=False
"""Turns bytes on the wire and on disk into Python objects."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

__all__ = [
    "BODY_BYTES_MAX",
    "DecodeError",
    "Outgoing",
    "ReceivedMessage",
    "UniqueIds",
    "any_has_flags",
    "decode_messages",
    "decode_properties",
    "decompress_body",
    "encode_batch",
    "encode_properties",
    "set_consume_start",
    "set_reader",
]


class DecodeError(ValueError):
    """Bytes that should be a stored message are not; the text says where and why."""


include "cursor.pxd"
include "properties.pyx"
include "body.pyx"
include "message.pyx"
include "outgoing.pyx"

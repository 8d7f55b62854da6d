# The stored message: positions of its fields, and a parser that never reads past the record.
#
# Every number is big-endian. Offsets after the body move with the lengths before them, and
# the host fields are 20 bytes instead of 8 when the system flag says IPv6.
#
#   0 total size i32     20 queue offset i64       48 born host 8|20      + prepared offset i64
#   4 magic i32          28 physical offset i64    .. store time i64      + body: i32 n, n bytes
#   8 body CRC i32       36 system flag i32        .. store host 8|20     + topic: u8 n (v2: u16)
#  12 queue id i32       40 born time i64          .. reconsume i32       + properties: i16 n
#  16 flag i32

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "endian.h" nogil:
    uint16_t mq_load_u16(const uint8_t *p)
    uint32_t mq_load_u32(const uint8_t *p)
    uint64_t mq_load_u64(const uint8_t *p)

cdef enum:
    BORN_HOST_AT = 48
    RECORD_MIN = 91  # fixed part with both hosts IPv4

cdef enum:  # bits of the system flag
    COMPRESSED = 0x1
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    COMPRESSION_TYPE = 0x700
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300

cdef struct Record:
    int32_t total_size, body_crc, queue_id, flag, sys_flag, reconsume_times
    int64_t queue_offset, physical_offset, born_timestamp_ms, store_timestamp_ms
    int64_t prepared_transaction_offset
    # positions and lengths in bytes, from the start of the record
    int32_t born_host_length, store_host_at, store_host_length
    int32_t body_at, body_length, topic_at, topic_length, properties_at, properties_length


cdef inline int32_t load_i32(const uint8_t *p) noexcept nogil:
    return <int32_t>mq_load_u32(p)


cdef inline int64_t load_i64(const uint8_t *p) noexcept nogil:
    return <int64_t>mq_load_u64(p)


cdef inline const char *parse_numbers(const uint8_t *p, Py_ssize_t available,
                                      Record *r) noexcept nogil:
    """Read the fixed part; returns NULL, or the text of an error."""
    if available < RECORD_MIN:
        return b"fewer bytes left than the smallest record (91)"
    r.total_size = load_i32(p)
    if r.total_size < RECORD_MIN:
        return b"total size is below the smallest record (91)"
    if r.total_size > available:
        return b"total size reaches beyond the end of the buffer"
    r.body_crc = load_i32(p + 8)
    r.queue_id = load_i32(p + 12)
    r.flag = load_i32(p + 16)
    r.queue_offset = load_i64(p + 20)
    r.physical_offset = load_i64(p + 28)
    r.sys_flag = load_i32(p + 36)
    r.born_timestamp_ms = load_i64(p + 40)
    r.born_host_length = 20 if r.sys_flag & BORN_HOST_V6 else 8
    r.store_host_length = 20 if r.sys_flag & STORE_HOST_V6 else 8
    r.store_host_at = BORN_HOST_AT + r.born_host_length + 8
    cdef int32_t at = r.store_host_at + r.store_host_length
    if at + 12 > r.total_size:
        return b"the record ends inside its fixed part"
    r.store_timestamp_ms = load_i64(p + r.store_host_at - 8)
    r.reconsume_times = load_i32(p + at)
    r.prepared_transaction_offset = load_i64(p + at + 4)
    return NULL


cdef inline const char *parse_record(const uint8_t *p, Py_ssize_t available,
                                     Record *r) noexcept nogil:
    """Find every field of the record at p; returns NULL, or the text of an error."""
    cdef const char *wrong = parse_numbers(p, available, r)
    if wrong != NULL:
        return wrong
    cdef uint32_t magic = mq_load_u32(p + 4)
    cdef bint wide_topic = magic == 0xDAA320ABu
    if not wide_topic and magic != 0xDAA320A7u:
        return b"unknown magic code"
    cdef int64_t at = r.store_host_at + r.store_host_length + 12, end = r.total_size
    if at + 4 > end:
        return b"the record ends before its body length"
    r.body_length = load_i32(p + at)
    r.body_at = <int32_t>(at + 4)
    at = <int64_t>r.body_at + r.body_length
    if r.body_length < 0 or at + (2 if wide_topic else 1) > end:
        return b"the body length is negative or reaches beyond the record"
    r.topic_length = mq_load_u16(p + at) if wide_topic else p[at]
    r.topic_at = <int32_t>at + (2 if wide_topic else 1)
    at = r.topic_at + r.topic_length
    if at + 2 > end:
        return b"the topic length reaches beyond the record"
    r.properties_length = mq_load_u16(p + at)
    r.properties_at = <int32_t>at + 2
    if r.properties_length > 0x7FFF or r.properties_at + r.properties_length != end:
        return b"the properties do not end where the record ends"
    return NULL

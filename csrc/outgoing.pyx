# The parts that every sent message needs: a unique id, and the variable fields of its header.

cdef extern from "Python.h":
    bytes PyBytes_FromStringAndSize(const char *text, Py_ssize_t size)

cdef enum:
    ITEM_HEAD_BYTES = 20  # total size, magic, CRC, flag and the body's length
    PROPERTIES_BYTES_MAX = 32767 - 640  # see RETRY_ROOM_BYTES of mqclient.producer.outgoing

cdef extern from "<time.h>":
    cdef struct timespec:
        int64_t tv_sec
        int64_t tv_nsec
    int timespec_get(timespec *now, int base) nogil
    int TIME_UTC


cdef inline int64_t milliseconds() noexcept:
    """Milliseconds since the epoch, without a call into Python."""
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return now.tv_sec * 1000 + now.tv_nsec // 1_000_000


@cython.final
cdef class UniqueIds:
    """Makes UNIQ_KEY ids: a head that is constant for one millisecond, and a counter.

    head: returns the first 28 hex digits for a time in milliseconds since the epoch.
    """

    cdef object _make_head
    cdef char _id[32]
    cdef int64_t _head_ms
    cdef uint32_t _counter

    def __cinit__(self, head):
        self._make_head = head
        self._head_ms = -1

    cdef int _fill(self, char *id) except -1:
        cdef int64_t now_ms = milliseconds()
        cdef bytes head
        cdef uint32_t count
        with cython.critical_section(self):
            if now_ms != self._head_ms:
                head = self._make_head(now_ms)
                if len(head) != 28:
                    raise ValueError(f"the head of an id has 28 digits, not {len(head)}")
                memcpy(self._id, bytes_pointer(head), 28)
                self._head_ms = now_ms
            count = self._counter
            self._counter = count + 1
            memcpy(id, self._id, 28)
        id[28] = b"0123456789ABCDEF"[count >> 12 & 15]
        id[29] = b"0123456789ABCDEF"[count >> 8 & 15]
        id[30] = b"0123456789ABCDEF"[count >> 4 & 15]
        id[31] = b"0123456789ABCDEF"[count & 15]
        return 0

    def next(self):
        """The next id. Safe from any thread; raises what `head` raises."""
        cdef char id[32]
        self._fill(id)
        return PyUnicode_DecodeUTF8(id, 32, NULL)

    def forget(self):
        """Compute the head again; a forked child must not repeat the ids of its parent."""
        self._head_ms = -1


@cython.final
@cython.no_gc  # holds bytes, text and numbers: no cycle
cdef class Outgoing:
    """A message or a batch, ready to be sent; see mqclient.producer.outgoing."""

    cdef public str topic
    cdef public bytes body
    cdef public str properties
    cdef public str msg_id
    cdef public object flag
    cdef public object sys_flag
    cdef public bint batch
    cdef public object reconsume_times
    cdef public object max_reconsume_times
    cdef public object born_timestamp_ms

    def __cinit__(self, str topic not None, bytes body not None, str properties not None,
                  str msg_id not None, object flag=0, bint batch=False):
        self.topic = topic
        self.body = body
        self.properties = properties
        self.msg_id = msg_id
        self.flag = flag
        self.sys_flag = self.reconsume_times = 0
        self.batch = batch

    def values(self):
        """The variable fields of the request header, in its order; the default born time is now."""
        cdef object born_ms = self.born_timestamp_ms
        if born_ms is None:
            born_ms = milliseconds()
        return (self.sys_flag, born_ms, self.flag, self.properties, self.reconsume_times,
                self.max_reconsume_times)


cdef inline uint8_t *_put_i32(uint8_t *p, int32_t value) noexcept nogil:
    p[0], p[1] = <uint32_t>value >> 24, <uint32_t>value >> 16 & 255
    p[2], p[3] = <uint32_t>value >> 8 & 255, value & 255
    return p + 4


cdef inline uint8_t *_put_bytes(uint8_t *p, bytes text) except NULL:
    cdef Py_ssize_t size = len(text)
    memcpy(p, bytes_pointer(text), size)
    return p + size


cdef bytes _join_items(list bodies, list flags, list texts):
    """The items of a batch, one after another; the CRC and the magic number stay 0."""
    cdef Py_ssize_t i, count = len(bodies), size = 0
    cdef Py_ssize_t body_bytes, text_bytes
    for i in range(count):
        size += ITEM_HEAD_BYTES + len(<bytes>bodies[i]) + 2 + len(<bytes>texts[i])
    if size > 0x7FFFFFFF:
        raise ValueError(f"the batch has {size} bytes, more than a frame can hold")
    cdef bytes items = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t *p = <uint8_t *>bytes_pointer(items)
    for i in range(count):
        body_bytes, text_bytes = len(<bytes>bodies[i]), len(<bytes>texts[i])
        p = _put_i32(p, <int32_t>(ITEM_HEAD_BYTES + body_bytes + 2 + text_bytes))
        p = _put_i32(_put_i32(p, 0), 0)
        p = _put_i32(_put_i32(p, flags[i]), <int32_t>body_bytes)
        p = _put_bytes(p, <bytes>bodies[i])
        p[0], p[1] = text_bytes >> 8, text_bytes & 255
        p = _put_bytes(p + 2, <bytes>texts[i])
    return items


def encode_batch(messages, type kind not None, str topic not None, dict plain not None,
                 UniqueIds ids not None, check):
    """Write the body of a batch; returns it and the unique ids as a comma-separated list.

    Each item: length, magic 0, CRC 0, flag, body with its length, properties with theirs.
    kind, topic: type and topic of every message. plain: the WAIT property of every message.
    check: called with a message that differs from these or is delayed or empty; raises an error
    if the message is not allowed.
    Raises ValueError for properties of over 32127 bytes or with separators inside.
    """
    cdef bytes plain_head = encode_properties(plain) + b"\x02UNIQ_KEY\x01"
    cdef object wait = plain["WAIT"]
    cdef list bodies = [], flags = [], texts = [], names = []
    cdef char id[32]
    cdef bytes text, name
    for message in messages:
        if type(message) is not kind:
            check(message)
        body, properties = message.body, message.properties
        if not body or message.topic != topic:
            check(message)
        if properties == plain:
            ids._fill(id)
            name = id[:32]
            text = plain_head + name
        else:
            if (properties.get("WAIT") != wait or "DELAY" in properties
                    or "TIMER_DELIVER_MS" in properties):
                check(message)
            own = properties.get("UNIQ_KEY") or ids.next()
            name = own.encode()
            text = encode_properties({**properties, "UNIQ_KEY": own})
            if len(text) > PROPERTIES_BYTES_MAX:
                raise ValueError(f"properties take {len(text)} bytes, the limit is "
                                 f"{PROPERTIES_BYTES_MAX}")
        bodies.append(body if type(body) is bytes else bytes(memoryview(body)))
        flags.append(message.flag)
        texts.append(text)
        names.append(name)
    return _join_items(bodies, flags, texts), b",".join(names).decode()

# One stored message as a Python object. Numbers are decoded at once, other fields on first use.

cdef uint8_t EMPTY_RECORD[RECORD_MIN]  # zeros, for a message that was not decoded


cdef str _host_text(const uint8_t *p, int32_t length):
    """ip:port of a host field of 8 (IPv4) or 20 (IPv6) bytes."""
    if length == 8:
        return f"{p[0]}.{p[1]}.{p[2]}.{p[3]}:{load_i32(p + 4)}"
    from socket import AF_INET6, inet_ntop  # late: servers start faster

    return f"[{inet_ntop(AF_INET6, p[:16])}]:{load_i32(p + 16)}"


cdef str _java_host_text(const uint8_t *p, int32_t length):
    """A host as Java's InetSocketAddress prints it, IPv6 in full."""
    if length == 8:
        return "/" + _host_text(p, length)
    groups = ":".join([f"{mq_load_u16(p + 2 * i):x}" for i in range(8)])
    return f"/[{groups}]:{load_i32(p + 16)}"


cdef str _offset_id(const uint8_t *p, int32_t host_at, int32_t host_length,
                    int64_t physical_offset):
    """Store host and physical offset as RocketMQ's offset message id."""
    return p[host_at:host_at + host_length].hex().upper() + f"{<uint64_t>physical_offset:016X}"


cdef object _instant(int64_t timestamp_ms):
    from datetime import datetime, timedelta, timezone

    try:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        raise DecodeError(f"timestamp {timestamp_ms} ms is not a date") from None


cdef object _NO_VALUE = object()  # `value` was not read yet


@cython.final
@cython.no_gc  # holds bytes, text, a dict of text and a value: tracking would cost a third
cdef class ReceivedMessage:
    """A message as stored: RocketMQ's MessageExt, decoded lazily.

    Numbers are read at once. Topic, properties and body are decoded when first read and then
    kept; until then the object keeps its whole source buffer alive. `detach()` and
    pickle copy the record out of it. Timestamps ending in `_ms` are milliseconds since the
    epoch. `topic` and `reconsume_times` may be assigned, and `properties` is an ordinary dict
    that belongs to the message: a consumer restores the topic of a retried message, and an
    orderly one counts the failures of its handler.
    """

    cdef bytes _buffer
    cdef const uint8_t *_record
    cdef int32_t _born_host_length, _store_host_at, _store_host_length, _body_at, _body_length
    cdef int32_t _topic_at, _topic_length, _properties_at, _properties_length
    cdef object _topic, _body, _properties, _reader, _value
    cdef int64_t _min_offset, _max_offset, _consume_start_ms
    cdef readonly int32_t store_size, body_crc, queue_id, flag, sys_flag
    cdef public int32_t reconsume_times
    cdef readonly int64_t queue_offset, commit_log_offset, prepared_transaction_offset
    cdef readonly int64_t born_timestamp_ms, store_timestamp_ms
    cdef public str broker_name, transaction_id

    def __cinit__(self):
        self._record = EMPTY_RECORD
        self._value = _NO_VALUE

    @classmethod
    def __class_getitem__(cls, kind):
        """`ReceivedMessage[Order]`, for type checkers: the kind of `value`."""
        from types import GenericAlias

        return GenericAlias(cls, kind)

    def __init__(self, *args, **kwargs):
        raise TypeError("messages are made by decode_messages()")

    @property
    def topic(self):
        """Name of the topic."""
        if self._topic is None:
            self._topic = text_of(self._record + self._topic_at, self._topic_length)
        return self._topic

    @topic.setter
    def topic(self, str value not None):
        self._topic = value

    @property
    def body(self):
        """The body as it was sent, decompressed.

        Raises DecodeError if it does not decompress or its codec is not installed.
        """
        if self._body is None:
            self._body = decompress_body(self.stored_body, self.sys_flag)
        return self._body

    @property
    def value(self):
        """The body as the consumer's deserializer reads it, once; the body itself without one.

        Raises what the reader of `set_reader` raises.
        """
        if self._value is _NO_VALUE:
            self._value = self.body if self._reader is None else self._reader(self)
        return self._value

    @property
    def stored_body(self):
        """The body as stored, perhaps compressed; `body_crc` covers these bytes."""
        return <bytes>self._record[self._body_at:self._body_at + self._body_length]

    @property
    def properties(self):
        """Every property by name, including system properties, in stored order."""
        if self._properties is None:
            pairs = read_properties(self._record + self._properties_at, self._properties_length)
            if self._max_offset >= 0:
                pairs["MIN_OFFSET"] = str(self._min_offset)
                pairs["MAX_OFFSET"] = str(self._max_offset)
            if self._consume_start_ms:
                pairs["CONSUME_START_TIME"] = str(self._consume_start_ms)
            self._properties = pairs
        return self._properties

    @property
    def consume_start_ms(self):
        """Time at which a handler got the message, milliseconds since the epoch; 0 before.

        Assigning it also sets the property CONSUME_START_TIME.
        """
        return self._consume_start_ms

    @consume_start_ms.setter
    def consume_start_ms(self, int64_t value):
        self._begin(value)

    cdef int _begin(self, int64_t now_ms) except -1:
        self._consume_start_ms = now_ms
        if self._properties is not None:
            self._properties["CONSUME_START_TIME"] = str(now_ms)
        return 0

    @property
    def stored_properties(self):
        """The properties text as stored."""
        return <bytes>self._record[self._properties_at:
                                   self._properties_at + self._properties_length]

    cdef object _property(self, bytes name):
        if self._properties is not None:
            return self._properties.get(name.decode())
        return find_property(self._record + self._properties_at, self._properties_length, name)

    @property
    def tags(self):
        """The tag, or None."""
        return self._property(b"TAGS")

    @property
    def keys(self):
        """The index keys; empty without any."""
        text = self._property(b"KEYS")
        return tuple([word for word in text.split(" ") if word]) if text else ()

    @property
    def msg_id(self):
        """The producer's unique id; the offset id for a message without one."""
        unique = self._property(b"UNIQ_KEY")
        return self.offset_msg_id if unique is None else unique

    @property
    def offset_msg_id(self):
        """Store host and physical offset as upper-case hex: 32 digits, 56 with IPv6."""
        return _offset_id(self._record, self._store_host_at, self._store_host_length,
                          self.commit_log_offset)

    @property
    def born_host(self):
        """The producer as "ip:port"."""
        return _host_text(self._record + BORN_HOST_AT, self._born_host_length)

    @property
    def store_host(self):
        """The broker as "ip:port"."""
        return _host_text(self._record + self._store_host_at, self._store_host_length)

    @property
    def born_timestamp(self):
        """Time at which the producer made the message, an aware datetime in UTC."""
        return _instant(self.born_timestamp_ms)

    @property
    def store_timestamp(self):
        """Time at which the broker stored the message, an aware datetime in UTC."""
        return _instant(self.store_timestamp_ms)

    def detach(self):
        """An equal message that holds a copy of its own record instead of the whole buffer."""
        return _restore(*self.__reduce__()[1])

    def __reduce__(self):
        record = <bytes>self._record[:self.store_size]
        changes = (self._topic, None if self._properties is None else dict(self._properties),
                   self.transaction_id, self._min_offset, self._max_offset,
                   self._consume_start_ms, self.reconsume_times, self._reader)
        return _restore, (record, self.broker_name, changes)

    def __repr__(self):
        return (f"<ReceivedMessage {self.topic} queue {self.queue_id} offset "
                f"{self.queue_offset} id {self.msg_id}>")

    def __str__(self):  # as RocketMQ prints a MessageExt
        properties = ", ".join([f"{name}={value}" for name, value in self.properties.items()])
        body = ", ".join([str(b - 256 if b > 127 else b) for b in self.body])
        transaction_id = "null" if self.transaction_id is None else self.transaction_id
        born_host = _java_host_text(self._record + BORN_HOST_AT, self._born_host_length)
        store_host = _java_host_text(self._record + self._store_host_at, self._store_host_length)
        return (
            f"MessageExt [brokerName={self.broker_name}, queueId={self.queue_id}, "
            f"storeSize={self.store_size}, queueOffset={self.queue_offset}, "
            f"sysFlag={self.sys_flag}, bornTimestamp={self.born_timestamp_ms}, "
            f"bornHost={born_host}, storeTimestamp={self.store_timestamp_ms}, "
            f"storeHost={store_host}, msgId={self.offset_msg_id}, "
            f"commitLogOffset={self.commit_log_offset}, bodyCRC={self.body_crc}, "
            f"reconsumeTimes={self.reconsume_times}, "
            f"preparedTransactionOffset={self.prepared_transaction_offset}, "
            f"toString()=Message{{topic='{self.topic}', flag={self.flag}, "
            f"properties={{{properties}}}, body={f'[{body}]' if body else 'null'}, "
            f"transactionId='{transaction_id}'}}]"
        )


cdef ReceivedMessage _message(bytes buffer, const uint8_t *p, const Record *r,
                              object broker_name, int64_t min_offset, int64_t max_offset):
    cdef ReceivedMessage m = ReceivedMessage.__new__(ReceivedMessage)
    m._buffer = buffer
    m._record = p
    m._born_host_length, m._store_host_at = r.born_host_length, r.store_host_at
    m._store_host_length = r.store_host_length
    m._body_at, m._body_length = r.body_at, r.body_length
    m._topic_at, m._topic_length = r.topic_at, r.topic_length
    m._properties_at, m._properties_length = r.properties_at, r.properties_length
    m._min_offset, m._max_offset = min_offset, max_offset
    m.store_size, m.body_crc, m.queue_id = r.total_size, r.body_crc, r.queue_id
    m.flag, m.sys_flag, m.reconsume_times = r.flag, r.sys_flag, r.reconsume_times
    m.queue_offset, m.commit_log_offset = r.queue_offset, r.physical_offset
    m.prepared_transaction_offset = r.prepared_transaction_offset
    m.born_timestamp_ms, m.store_timestamp_ms = r.born_timestamp_ms, r.store_timestamp_ms
    m.broker_name = broker_name
    return m


def _restore(bytes record not None, broker_name, changes):
    """Rebuild a message from its own record; used by pickle."""
    cdef ReceivedMessage message = decode_messages(record, broker_name)[0]
    (message._topic, message._properties, message.transaction_id, message._min_offset,
     message._max_offset, message._consume_start_ms, message.reconsume_times,
     message._reader) = changes
    return message


def set_reader(list messages not None, reader):
    """Have `reader(message)` make the `value` of each message when it is first asked for."""
    cdef ReceivedMessage message
    for message in messages:
        message._reader = reader


def set_consume_start(list messages not None, int64_t now_ms):
    """Set `consume_start_ms` of each message."""
    cdef ReceivedMessage message
    for message in messages:
        message._begin(now_ms)


def any_has_flags(list messages not None, int32_t flags):
    """Whether the `sys_flag` of a message has one of some bits."""
    cdef ReceivedMessage message
    for message in messages:
        if message.sys_flag & flags:
            return True
    return False


def decode_messages(bytes body not None, str broker_name not None="",
                    int64_t min_offset=-1, int64_t max_offset=-1):
    """Decode the concatenated records of a pull, query or view reply.

    body: whole records, one after another; kept alive by the messages.
    broker_name: becomes `broker_name` of every message.
    min_offset, max_offset: of the queue, from the pull reply; when given, each message has
    them as properties MIN_OFFSET and MAX_OFFSET, as RocketMQ's consumers do.
    Raises DecodeError with the position of a malformed record; nothing is returned then.
    """
    cdef const uint8_t *start = bytes_pointer(body)
    cdef Py_ssize_t size = len(body), at = 0
    cdef Record record
    cdef const char *wrong
    cdef list messages = []
    while at < size:
        wrong = parse_record(start + at, size - at, &record)
        if wrong != NULL:
            raise DecodeError(f"record at byte {at} of {size}: {wrong.decode()}")
        messages.append(_message(body, start + at, &record, broker_name, min_offset, max_offset))
        at += record.total_size
    return messages

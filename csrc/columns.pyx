# Records to column buffers in Arrow's layout: what Spark reads, with nothing per row in Python.

cdef int32_t write_decimal(uint8_t *out, uint32_t value) noexcept nogil:
    """Write a number in decimal; returns how many digits."""
    cdef uint8_t digits[10]
    cdef int32_t count = 0, i
    while True:
        digits[count] = <uint8_t>(0x30 + value % 10)
        value //= 10
        count += 1
        if value == 0:
            break
    for i in range(count):
        out[i] = digits[count - 1 - i]
    return count


cdef class _Column:
    """One column being filled; a subclass per layout."""

    cdef int add(self, const uint8_t *p, const Record *r) except -1:
        raise NotImplementedError

    cdef Py_ssize_t size(self):
        raise NotImplementedError

    cdef tuple take(self):
        raise NotImplementedError


@cython.final
cdef class _Numbers(_Column):
    """A number of the record, found by its place in the parsed struct."""

    cdef _Sink _values
    cdef Py_ssize_t _at
    cdef int32_t _width  # 4, 8, or 0: milliseconds to microseconds

    def __cinit__(self, Py_ssize_t at, int32_t width):
        self._values, self._at, self._width = _Sink(), at, width

    cdef int add(self, const uint8_t *p, const Record *r) except -1:
        cdef const char *field = <const char *>r + self._at
        cdef int64_t limit = 0x7FFFFFFFFFFFFFFF // 1000
        if self._width == 4:
            return self._values.append_i32((<const int32_t *>field)[0])
        if self._width == 8:
            return self._values.append_i64((<const int64_t *>field)[0])
        return self._values.append_i64(
            max(min((<const int64_t *>field)[0], limit), -limit) * 1000)

    cdef Py_ssize_t size(self):
        return self._values.size

    cdef tuple take(self):
        return None, self._values.take()


cdef enum TextKind:
    TOPIC, BODY, MSG_ID, BORN_HOST, STORE_HOST, PROPERTY, RAW_PROPERTIES


@cython.final
cdef class _TextColumn(_Column):
    """Text or bytes of the record."""

    cdef _Texts _texts
    cdef TextKind _kind
    cdef bytes _name

    def __cinit__(self, TextKind kind, bytes name=None):
        self._texts, self._kind, self._name = _Texts(), kind, name

    cdef int add(self, const uint8_t *p, const Record *r) except -1:
        cdef bint valid = True
        if self._kind == BODY:
            self._add_body(p, r)
        elif self._kind == TOPIC:
            append_utf8(self._texts.values, p + r.topic_at, r.topic_length)
        elif self._kind == BORN_HOST:
            self._add_host(p + BORN_HOST_AT, r.born_host_length)
        elif self._kind == STORE_HOST:
            self._add_host(p + r.store_host_at, r.store_host_length)
        elif self._kind == RAW_PROPERTIES:
            append_utf8(self._texts.values, p + r.properties_at, r.properties_length)
        else:
            valid = self._add_property(p, r)
            if not valid and self._kind == MSG_ID:
                self._add_offset_id(p, r)
                valid = True
        return self._texts.end_row(valid)

    cdef int _add_body(self, const uint8_t *p, const Record *r) except -1:
        cdef bytes body
        if not r.sys_flag & COMPRESSED:
            return self._texts.values.append(p + r.body_at, r.body_length)
        body = decompress_body(<bytes>p[r.body_at:r.body_at + r.body_length], r.sys_flag)
        return self._texts.values.append(bytes_pointer(body), len(body))

    cdef bint _add_property(self, const uint8_t *p, const Record *r) except -1:
        cdef Py_ssize_t size = 0
        cdef const uint8_t *value = property_value(
            p + r.properties_at, r.properties_length, bytes_pointer(self._name),
            len(self._name), &size)
        if value == NULL:
            return False
        append_utf8(self._texts.values, value, size)
        return True

    cdef int _add_host(self, const uint8_t *p, int32_t length) except -1:
        cdef uint8_t text[32]
        cdef int32_t size = 0, i
        cdef bytes wide
        if length == 8:
            for i in range(4):
                size += write_decimal(text + size, p[i])
                text[size] = 0x3A if i == 3 else 0x2E  # ":" before the port, "." between
                size += 1
            size += write_decimal(text + size, mq_load_u32(p + 4))
            return self._texts.values.append(text, size)
        wide = _host_text(p, length).encode()
        return self._texts.values.append(bytes_pointer(wide), len(wide))

    cdef int _add_offset_id(self, const uint8_t *p, const Record *r) except -1:
        cdef bytes text = _offset_id(p, r.store_host_at, r.store_host_length,
                                     r.physical_offset).encode()
        return self._texts.values.append(bytes_pointer(text), len(text))

    cdef Py_ssize_t size(self):
        return self._texts.values.size

    cdef tuple take(self):
        return self._texts.take()


@cython.final
cdef class _MapColumn(_Column):
    """All properties: row ends, names, values."""

    cdef _Sink _ends
    cdef _Texts _names, _values
    cdef int32_t _pairs

    def __cinit__(self):
        self._ends, self._names, self._values = _Sink(), _Texts(), _Texts()

    cdef int add(self, const uint8_t *p, const Record *r) except -1:
        cdef Pair pairs[PAIRS_MAX]
        cdef int32_t count, i
        p += r.properties_at
        if self._ends.size == 0:
            self._ends.append_i32(0)
        count = split_pairs(p, r.properties_length, pairs)
        if count < 0 or not is_ascii(p, r.properties_length):
            self._add_slowly(p, r.properties_length)
        else:
            for i in range(count):
                self._add_pair(pairs[i].name, pairs[i].name_size, pairs[i].value,
                               pairs[i].value_size)
        return self._ends.append_i32(self._pairs)

    cdef int _add_slowly(self, const uint8_t *p, int32_t size) except -1:
        """By way of Python text: a name may be repeated (the last wins: Spark's maps forbid
        it), and bytes that are not UTF-8 are replaced."""
        cdef bytes name, value
        for name_text, value_text in read_properties(p, size).items():
            name, value = name_text.encode(), value_text.encode()
            self._add_pair(bytes_pointer(name), len(name), bytes_pointer(value), len(value))
        return 0

    cdef int _add_pair(self, const uint8_t *name, Py_ssize_t name_size,
                       const uint8_t *value, Py_ssize_t value_size) except -1:
        self._names.values.append(name, name_size)
        self._values.values.append(value, value_size)
        self._names.end_value()
        self._values.end_value()
        self._pairs += 1
        return 0

    cdef Py_ssize_t size(self):
        return self._names.values.size + self._values.values.size

    cdef tuple take(self):
        if self._ends.size == 0:
            self._ends.append_i32(0)
        pairs, self._pairs = self._pairs, 0
        return self._ends.take(), pairs, self._names.take()[1:], self._values.take()[1:]


cdef dict _column_makers():
    """Column name to (layout, what makes the column)."""
    cdef Record r
    cdef char *start = <char *>&r

    def number(Py_ssize_t at, int32_t width):
        layout = {4: "int32", 8: "int64", 0: "timestamp"}[width]
        return layout, lambda: _Numbers(at, width)

    def text(kind, name=None, layout="string"):
        return layout, lambda: _TextColumn(kind, name)

    return {
        "topic": text(TOPIC),
        "queue_id": number(<char *>&r.queue_id - start, 4),
        "queue_offset": number(<char *>&r.queue_offset - start, 8),
        "commit_log_offset": number(<char *>&r.physical_offset - start, 8),
        "msg_id": text(MSG_ID, b"UNIQ_KEY"),
        "tags": text(PROPERTY, b"TAGS"),
        "keys": text(PROPERTY, b"KEYS"),
        "body": text(BODY, layout="binary"),
        "properties": ("map", _MapColumn),
        "raw_properties": text(RAW_PROPERTIES),
        "flag": number(<char *>&r.flag - start, 4),
        "sys_flag": number(<char *>&r.sys_flag - start, 4),
        "born_timestamp": number(<char *>&r.born_timestamp_ms - start, 0),
        "born_host": text(BORN_HOST),
        "store_timestamp": number(<char *>&r.store_timestamp_ms - start, 0),
        "store_host": text(STORE_HOST),
        "reconsume_times": number(<char *>&r.reconsume_times - start, 4),
        "prepared_transaction_offset": number(
            <char *>&r.prepared_transaction_offset - start, 8),
        "store_size": number(<char *>&r.total_size - start, 4),
        "body_crc": number(<char *>&r.body_crc - start, 4),
    }


cdef dict _COLUMN_MAKERS = _column_makers()

COLUMN_LAYOUTS = {name: layout for name, (layout, _) in _COLUMN_MAKERS.items()}


@cython.final
cdef class ColumnBuilder:
    """Collects stored messages as column buffers in Arrow's layout.

    columns: names of COLUMN_LAYOUTS; only these are decoded.
    """

    cdef dict _columns
    cdef list _order
    cdef readonly Py_ssize_t rows

    def __cinit__(self, columns):
        self._columns = {}
        for name in columns:
            if name not in _COLUMN_MAKERS:
                raise ValueError(f"unknown column {name!r}; there are: "
                                 + ", ".join(_COLUMN_MAKERS))
            self._columns[name] = _COLUMN_MAKERS[name][1]()
        self._order = list(self._columns.values())

    @property
    def size_bytes(self):
        """Bytes collected so far, about."""
        cdef Py_ssize_t total = 0
        cdef _Column column
        for column in self._order:
            total += column.size()
        return total

    def add(self, bytes body not None, *, str topic=None, queue_ids=None, tags=None,
            int64_t first_queue_offset=0, int64_t end_queue_offset=0x7FFFFFFFFFFFFFFF,
            int64_t end_physical_offset=0x7FFFFFFFFFFFFFFF):
        """Add the records of `body` that are wanted; returns how many were.

        topic, queue_ids, tags: only these, None for all. The offsets bound which
        messages count: from first_queue_offset on, before the two ends.
        Raises DecodeError naming the byte where a record is malformed.
        """
        cdef const uint8_t *start = bytes_pointer(body)
        cdef Py_ssize_t size = len(body), at = 0, before = self.rows
        cdef bytes wanted_topic = None if topic is None else topic.encode()
        cdef frozenset wanted_tags = None if tags is None else frozenset(tags)
        cdef frozenset wanted_queues = None if queue_ids is None else frozenset(queue_ids)
        cdef Record r
        cdef const uint8_t *p
        cdef _Column column
        while at < size:
            p = start + at
            wrong = parse_record(p, size - at, &r)
            if wrong != NULL:
                raise DecodeError(f"record at byte {at} of {size}: {wrong.decode()}")
            at += r.total_size
            if r.queue_offset < first_queue_offset or r.queue_offset >= end_queue_offset \
                    or r.physical_offset >= end_physical_offset \
                    or (wanted_queues is not None and r.queue_id not in wanted_queues):
                continue
            if wanted_topic is not None and (
                    len(wanted_topic) != r.topic_length
                    or memcmp(bytes_pointer(wanted_topic), p + r.topic_at, r.topic_length) != 0):
                continue
            if wanted_tags is not None and find_property(
                    p + r.properties_at, r.properties_length, b"TAGS") not in wanted_tags:
                continue
            for column in self._order:
                column.add(p, &r)
            self.rows += 1
        return self.rows - before

    def take(self):
        """What was collected, by column; the builder is empty afterwards.

        Numbers: (None, data). Text and binary: (validity or None, int32 ends, bytes). A map:
        (int32 row ends, pairs, (name ends, bytes), (value ends, bytes)).
        """
        cdef _Column column
        self.rows = 0
        taken = {}
        for name, column in self._columns.items():
            taken[name] = column.take()
        return taken

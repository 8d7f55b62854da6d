# Which columns there are, and the class that fills them.

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

_OF_PROPERTIES = frozenset({"msg_id", "tags", "keys", "properties"})

COLUMN_LAYOUTS = {name: layout for name, (layout, _) in _COLUMN_MAKERS.items()}


@cython.final
cdef class ColumnBuilder:
    """Collects stored messages as column buffers in Arrow's layout.

    columns: names of COLUMN_LAYOUTS; only these are decoded.
    """

    cdef dict _columns
    cdef list _order
    cdef bint _with_pairs
    cdef readonly Py_ssize_t rows

    def __cinit__(self, columns):
        self._columns = {}
        for name in columns:
            if name not in _COLUMN_MAKERS:
                raise ValueError(f"unknown column {name!r}; there are: "
                                 + ", ".join(_COLUMN_MAKERS))
            self._columns[name] = _COLUMN_MAKERS[name][1]()
        self._order = list(self._columns.values())
        self._with_pairs = not _OF_PROPERTIES.isdisjoint(self._columns)

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
        cdef Row rows[ROWS_MAX]
        cdef int32_t count = 0
        cdef Record *r
        cdef const uint8_t *p
        while at < size:
            p, r = start + at, &rows[count].r
            wrong = parse_record(p, size - at, r)
            if wrong != NULL:
                self._add_rows(rows, count)
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
            rows[count].p = p
            count += 1
            if count == ROWS_MAX:
                self._add_rows(rows, count)
                count = 0
        self._add_rows(rows, count)
        return self.rows - before

    cdef int _add_rows(self, Row *rows, int32_t count) except -1:
        """Column by column: each then runs through the rows in one loop."""
        cdef Pair pairs[PAIRS_MAX + PAIRS_OF_ROW_MAX]
        cdef const uint8_t *p
        cdef int32_t i, used = 0, size
        cdef _Column column
        if count == 0:
            return 0
        for i in range(count if self._with_pairs else 0):
            p, size = rows[i].p + rows[i].r.properties_at, rows[i].r.properties_length
            rows[i].first_pair, rows[i].pair_count = used, -1
            if used <= PAIRS_MAX:
                rows[i].pair_count = split_pairs(p, size, pairs + used, PAIRS_OF_ROW_MAX)
                used += max(rows[i].pair_count, 0)
        for column in self._order:
            column.add(rows, count, pairs)
        self.rows += count
        return 0

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

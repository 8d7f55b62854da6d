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


cdef enum:
    ROWS_MAX = 128  # rows that columns take at once: what they look at stays in the cache
    PAIRS_MAX = 16 * ROWS_MAX  # property pairs of these rows
    PAIRS_OF_ROW_MAX = 64
    HOST_BYTES = 32  # text of an IPv4 address and a port


cdef struct Row:
    const uint8_t *p
    Record r
    int32_t first_pair, pair_count  # -1: so many, or not ASCII: read them by way of Python


cdef class _Column:
    """One column being filled; a subclass per layout."""

    cdef int add(self, const Row *rows, int32_t count, const Pair *pairs) except -1:
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

    cdef int add(self, const Row *rows, int32_t count, const Pair *pairs) except -1:
        cdef int32_t i, width = 4 if self._width == 4 else 8
        cdef uint8_t *out = self._values.extend(width * count)
        cdef int64_t limit = 0x7FFFFFFFFFFFFFFF // 1000, value
        for i in range(count):
            field = <const char *>&rows[i].r + self._at
            if self._width == 0:
                value = max(min((<const int64_t *>field)[0], limit), -limit) * 1000
                memcpy(out, &value, 8)
            else:
                memcpy(out, field, width)
            out += width
        return 0

    cdef Py_ssize_t size(self):
        return self._values.size

    cdef tuple take(self):
        return None, self._values.take()


cdef enum TextKind:
    TOPIC, BODY, MSG_ID, BORN_HOST, STORE_HOST, PROPERTY, RAW_PROPERTIES


cdef inline void replace(Slice *slice, bytes by, list kept):
    """Let a slice be other bytes, which live as long as `kept`."""
    kept.append(by)
    slice.start, slice.size = bytes_pointer(by), len(by)


@cython.final
cdef class _TextColumn(_Column):
    """Text or bytes of the record."""

    cdef _Texts _texts
    cdef TextKind _kind
    cdef bytes _name

    def __cinit__(self, TextKind kind, bytes name=None):
        self._texts, self._kind, self._name = _Texts(), kind, name

    cdef int add(self, const Row *rows, int32_t count, const Pair *pairs) except -1:
        cdef Slice slices[ROWS_MAX]
        cdef uint8_t hosts[ROWS_MAX * HOST_BYTES]
        cdef list kept = []  # what slices are of beside the records
        cdef int32_t i
        if self._kind == BODY:
            self._find_bodies(rows, count, slices, kept)
        elif self._kind == BORN_HOST or self._kind == STORE_HOST:
            self._write_hosts(rows, count, slices, hosts, kept)
        else:
            self._find_text(rows, count, pairs, slices, kept)
            for i in range(count):
                if slices[i].size > 0 and not is_ascii(slices[i].start, slices[i].size):
                    # Bytes that are no UTF-8 become U+FFFD, as when a str is made of them.
                    replace(&slices[i], text_of(slices[i].start, slices[i].size).encode(), kept)
        return self._texts.add(slices, count)

    cdef int _find_bodies(self, const Row *rows, int32_t count, Slice *slices,
                          list kept) except -1:
        cdef const Record *r
        cdef int32_t i
        for i in range(count):
            r = &rows[i].r
            slices[i].start, slices[i].size = rows[i].p + r.body_at, r.body_length
            if r.sys_flag & COMPRESSED:
                body = <bytes>slices[i].start[:slices[i].size]
                replace(&slices[i], decompress_body(body, r.sys_flag), kept)
        return 0

    cdef int _find_text(self, const Row *rows, int32_t count, const Pair *pairs, Slice *slices,
                        list kept) except -1:
        cdef const Record *r
        cdef int32_t i
        for i in range(count):
            r = &rows[i].r
            if self._kind == TOPIC:
                slices[i].start, slices[i].size = rows[i].p + r.topic_at, r.topic_length
            elif self._kind == RAW_PROPERTIES:
                slices[i].start = rows[i].p + r.properties_at
                slices[i].size = r.properties_length
            else:
                self._find_property(&rows[i], pairs, &slices[i])
                if slices[i].size < 0 and self._kind == MSG_ID:
                    id = _offset_id(rows[i].p, r.store_host_at, r.store_host_length,
                                    r.physical_offset)
                    replace(&slices[i], id.encode(), kept)
        return 0

    cdef int _find_property(self, const Row *row, const Pair *pairs, Slice *slice) except -1:
        """The last of the pairs with this name."""
        cdef const uint8_t *p = row.p + row.r.properties_at
        cdef const uint8_t *name = bytes_pointer(self._name)
        cdef Py_ssize_t size = len(self._name)
        cdef const Pair *pair
        cdef int32_t i
        slice.start, slice.size = p, -1
        if row.pair_count < 0:
            slice.start = property_value(p, row.r.properties_length, name, size, &slice.size)
            if slice.start == NULL:
                slice.size = -1
            return 0
        for i in range(row.pair_count - 1, -1, -1):
            pair = &pairs[row.first_pair + i]
            if pair.name_size == size and memcmp(p + pair.name_at, name, size) == 0:
                slice.start, slice.size = p + pair.value_at, pair.value_size
                break
        return 0

    cdef int _write_hosts(self, const Row *rows, int32_t count, Slice *slices, uint8_t *out,
                          list kept) except -1:
        cdef const uint8_t *p
        cdef int32_t i, j, size, length
        for i in range(count):
            p, length = rows[i].p + BORN_HOST_AT, rows[i].r.born_host_length
            if self._kind == STORE_HOST:
                p, length = rows[i].p + rows[i].r.store_host_at, rows[i].r.store_host_length
            if length != 8:
                replace(&slices[i], _host_text(p, length).encode(), kept)
                continue
            size = 0
            for j in range(4):
                size += write_decimal(out + size, p[j])
                out[size] = 0x3A if j == 3 else 0x2E  # ":" before the port, "." between
                size += 1
            size += write_decimal(out + size, mq_load_u32(p + 4))
            slices[i].start, slices[i].size = out, size
            out += HOST_BYTES
        return 0

    cdef Py_ssize_t size(self):
        return self._texts.values.size

    cdef tuple take(self):
        return self._texts.take()


cdef bint has_twin(const uint8_t *p, const Pair *pairs, int32_t count) noexcept nogil:
    """Whether a name occurs twice."""
    cdef int32_t i, j
    for i in range(1, count):
        for j in range(i):
            if pairs[i].name_size == pairs[j].name_size and memcmp(
                    p + pairs[i].name_at, p + pairs[j].name_at, pairs[i].name_size) == 0:
                return True
    return False


@cython.final
cdef class _MapColumn(_Column):
    """All properties: row ends, names, values."""

    cdef _Sink _ends
    cdef _Texts _names, _values

    def __cinit__(self):
        self._ends, self._names, self._values = _Sink(), _Texts(), _Texts()

    cdef int add(self, const Row *rows, int32_t count, const Pair *pairs) except -1:
        cdef Slice names[PAIRS_MAX + PAIRS_OF_ROW_MAX]
        cdef Slice values[PAIRS_MAX + PAIRS_OF_ROW_MAX]
        cdef const uint8_t *p
        cdef const Pair *own
        cdef int32_t i, j, waiting = 0
        if self._ends.size == 0:
            self._ends.append_i32(0)
        for i in range(count):
            p, own = rows[i].p + rows[i].r.properties_at, pairs + rows[i].first_pair
            if rows[i].pair_count < 0 or has_twin(p, own, rows[i].pair_count):
                self._names.add(names, waiting)
                self._values.add(values, waiting)
                waiting = 0
                self._add_slowly(p, rows[i].r.properties_length)
            else:
                for j in range(rows[i].pair_count):
                    names[waiting].start = p + own[j].name_at
                    names[waiting].size = own[j].name_size
                    values[waiting].start = p + own[j].value_at
                    values[waiting].size = own[j].value_size
                    waiting += 1
            self._ends.append_i32(self._names._rows + waiting)
        self._names.add(names, waiting)
        self._values.add(values, waiting)
        return 0

    cdef int _add_slowly(self, const uint8_t *p, int32_t size) except -1:
        """By way of Python text: a name may be repeated (the last wins: Spark's maps forbid
        it), and bytes that are not UTF-8 are replaced."""
        cdef Slice name, value
        cdef list kept = []
        for name_text, value_text in read_properties(p, size).items():
            replace(&name, name_text.encode(), kept)
            replace(&value, value_text.encode(), kept)
            self._names.add(&name, 1)
            self._values.add(&value, 1)
        return 0

    cdef Py_ssize_t size(self):
        return self._names.values.size + self._values.values.size

    cdef tuple take(self):
        if self._ends.size == 0:
            self._ends.append_i32(0)
        pairs = self._names._rows
        return self._ends.take(), pairs, self._names.take()[1:], self._values.take()[1:]

# Growable memory for Arrow buffers.

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy


@cython.final
cdef class _Sink:
    """Bytes that grow at their end; taken once as Python bytes."""

    cdef uint8_t *_data
    cdef size_t size, _capacity

    def __dealloc__(self):
        free(self._data)

    cdef uint8_t *extend(self, size_t count) except NULL:
        """Room for `count` more bytes; the pointer is good until the next call."""
        cdef size_t capacity
        cdef void *grown
        if self.size + count > self._capacity or self._data == NULL:
            capacity = (self.size + count) * 2 + 64
            grown = realloc(self._data, capacity)
            if grown == NULL:
                raise MemoryError(f"no memory for a column of {capacity} bytes")
            self._data = <uint8_t *>grown
            self._capacity = capacity
        self.size += count
        return self._data + self.size - count

    cdef int append(self, const uint8_t *p, size_t count) except -1:
        cdef uint8_t *room = self.extend(count)
        memcpy(room, p, count)
        return 0

    cdef int append_i32(self, int32_t value) except -1:
        return self.append(<const uint8_t *>&value, 4)

    cdef int append_i64(self, int64_t value) except -1:
        return self.append(<const uint8_t *>&value, 8)

    cdef bytes take(self):
        """Everything so far; the sink is empty afterwards and keeps its memory."""
        taken = <bytes>self._data[:self.size] if self.size else b""
        self.size = 0
        return taken


cdef bint is_ascii(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t high = 0
    for i in range(size):
        high |= p[i]
    return high < 0x80


cdef int append_utf8(_Sink sink, const uint8_t *p, Py_ssize_t size) except -1:
    """Append text that must be UTF-8: other bytes become U+FFFD, as when a str is made of it."""
    if is_ascii(p, size):
        return sink.append(p, size)
    cdef bytes valid = text_of(p, size).encode()
    return sink.append(bytes_pointer(valid), len(valid))


@cython.final
cdef class _Texts:
    """Arrow's layout of variable-length values: validity bits, int32 ends, bytes."""

    cdef _Sink values, _ends, _validity
    cdef int32_t _rows
    cdef int32_t nulls

    def __cinit__(self):
        self.values, self._ends, self._validity = _Sink(), _Sink(), _Sink()

    cdef int end_row(self, bint valid) except -1:
        """Everything appended to `values` since the last row is this row's value, or null."""
        cdef int32_t bit = self._rows & 7
        if bit == 0:
            self._validity.extend(1)[0] = 0
        if valid:
            self._validity._data[self._validity.size - 1] |= <uint8_t>(1 << bit)
        else:
            self.nulls += 1
        return self.end_value()

    cdef int end_value(self) except -1:
        """As `end_row`, in a column that has no nulls at all."""
        if self._rows == 0:
            self._ends.append_i32(0)
        if self.values.size > 0x7FFFFFFF:
            raise OverflowError("a batch holds more than 2 GiB of one column; take it earlier")
        self._ends.append_i32(<int32_t>self.values.size)
        self._rows += 1
        return 0

    cdef tuple take(self):
        if self._rows == 0:
            self._ends.append_i32(0)
        validity = self._validity.take()
        taken = (validity if self.nulls else None, self._ends.take(), self.values.take())
        self._rows = self.nulls = 0
        return taken

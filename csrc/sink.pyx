# Growable memory for Arrow buffers.

from libc.stdlib cimport free, realloc

cdef extern from "Python.h":
    int PyBuffer_FillInfo(Py_buffer *view, object owner, void *start, Py_ssize_t size,
                          int is_read_only, int flags) except -1


cdef enum:
    POOL_BYTES_MAX = 64 << 20


cdef list _pool = []  # memory that batches gave back: fresh memory costs a page fault per 4 KiB
cdef Py_ssize_t _pool_bytes = 0


@cython.final
@cython.no_gc
cdef class _Memory:
    """A block that grows at its end."""

    cdef uint8_t *data
    cdef size_t capacity

    def __dealloc__(self):
        free(self.data)

    cdef int grow(self, size_t capacity) except -1:
        cdef void *grown = realloc(self.data, capacity)
        if grown == NULL:
            raise MemoryError(f"no memory for a column of {capacity} bytes")
        self.data, self.capacity = <uint8_t *>grown, capacity
        return 0


@cython.final
@cython.no_gc
cdef class _Taken:
    """Bytes of a column, lent by the buffer protocol; the memory is used again afterwards."""

    cdef _Memory _memory
    cdef Py_ssize_t _size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self._memory.data, self._size, 1, flags)

    def __len__(self):
        return self._size

    def __dealloc__(self):
        global _pool_bytes
        if _pool is not None and _pool_bytes + self._memory.capacity <= POOL_BYTES_MAX:
            _pool_bytes += self._memory.capacity
            _pool.append(self._memory)


cdef _Memory pooled_memory():
    """A block that was given back, else an empty one."""
    global _pool_bytes
    try:
        memory = <_Memory>_pool.pop()
    except IndexError:
        return _Memory()
    _pool_bytes -= memory.capacity
    return memory


@cython.final
cdef class _Sink:
    """Bytes that grow at their end; taken once without a copy."""

    cdef _Memory _memory
    cdef uint8_t *_data
    cdef size_t size, _capacity

    cdef uint8_t *extend(self, size_t count) except NULL:
        """Room for `count` more bytes; the pointer is good until the next call."""
        if self._memory is None:
            self._memory = pooled_memory()
            self._data, self._capacity = self._memory.data, self._memory.capacity
        if self.size + count > self._capacity or self._data == NULL:
            self._memory.grow((self.size + count) * 2 + 64)
            self._data, self._capacity = self._memory.data, self._memory.capacity
        self.size += count
        return self._data + self.size - count

    cdef int append_i32(self, int32_t value) except -1:
        memcpy(self.extend(4), &value, 4)
        return 0

    cdef object take(self):
        """Everything so far, as an object with the buffer protocol; the sink is empty then."""
        cdef _Taken taken
        if self.size == 0:
            return b""
        taken = _Taken.__new__(_Taken)
        taken._memory, taken._size = self._memory, self.size
        self._memory, self._data, self.size, self._capacity = None, NULL, 0, 0
        return taken


cdef bint is_ascii(const uint8_t *p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i = 0
    cdef uint64_t word, high = 0
    cdef uint8_t rest = 0
    while i + 8 <= size:
        memcpy(&word, p + i, 8)
        high |= word
        i += 8
    while i < size:
        rest |= p[i]
        i += 1
    return (high & 0x8080808080808080u) == 0 and rest < 0x80


cdef struct Slice:
    const uint8_t *start
    Py_ssize_t size  # -1: null


@cython.final
cdef class _Texts:
    """Arrow's layout of variable-length values: validity bits, int32 ends, bytes."""

    cdef _Sink values, _ends, _validity
    cdef int32_t _rows
    cdef int32_t nulls

    def __cinit__(self):
        self.values, self._ends, self._validity = _Sink(), _Sink(), _Sink()

    cdef int add(self, const Slice *slices, Py_ssize_t count) except -1:
        """Add values and nulls."""
        cdef Py_ssize_t i, total = 0
        for i in range(count):
            if slices[i].size > 0:
                total += slices[i].size
        if self.values.size + total > 0x7FFFFFFF:
            raise OverflowError("a batch holds more than 2 GiB of one column; take it earlier")
        if self._ends.size == 0:
            self._ends.append_i32(0)
        cdef int32_t end = <int32_t>self.values.size
        cdef uint8_t *values = self.values.extend(total)
        cdef uint8_t *ends = self._ends.extend(4 * count)
        for i in range(count):
            if slices[i].size > 0:
                memcpy(values, slices[i].start, slices[i].size)
                values += slices[i].size
                end += <int32_t>slices[i].size
            memcpy(ends, &end, 4)
            ends += 4
        return self._mark(slices, count)

    cdef int _mark(self, const Slice *slices, Py_ssize_t count) except -1:
        """Set the validity bits of the next rows."""
        cdef Py_ssize_t i, bytes_before = (self._rows + 7) >> 3
        cdef Py_ssize_t grown = ((self._rows + count + 7) >> 3) - bytes_before
        cdef uint8_t *bits = self._validity.extend(grown)
        memset(bits, 0, grown)
        bits = self._validity._data
        for i in range(count):
            if slices[i].size >= 0:
                bits[self._rows >> 3] |= <uint8_t>(1 << (self._rows & 7))
            else:
                self.nulls += 1
            self._rows += 1
        return 0

    cdef tuple take(self):
        if self._ends.size == 0:
            self._ends.append_i32(0)
        validity = self._validity.take()
        taken = (validity if self.nulls else None, self._ends.take(), self.values.take())
        self._rows = self.nulls = 0
        return taken

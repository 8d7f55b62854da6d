# What every sent message needs made for it: a unique id, and the open fields of its header.

cdef extern from "<time.h>":
    cdef struct timespec:
        int64_t tv_sec
        int64_t tv_nsec
    int timespec_get(timespec *now, int base) nogil
    int TIME_UTC


cdef inline int64_t milliseconds() noexcept:
    """The time since the epoch, without a call of Python's."""
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return now.tv_sec * 1000 + now.tv_nsec // 1_000_000


@cython.final
cdef class UniqueIds:
    """Makes UNIQ_KEY ids: a head that is the same for a millisecond, and a counter.

    head: gives the first 28 hex digits for a time in milliseconds since the epoch.
    """

    cdef object _make_head
    cdef char _id[32]
    cdef int64_t _head_ms
    cdef uint32_t _counter

    def __cinit__(self, head):
        self._make_head = head
        self._head_ms = -1

    def next(self):
        """The next id. Safe from any thread; raises what `head` raises."""
        cdef int64_t now_ms = milliseconds()
        cdef bytes head
        cdef char id[32]
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
        return PyUnicode_DecodeUTF8(id, 32, NULL)

    def forget(self):
        """Ask for the head again, in a forked child: it must not repeat its parent's ids."""
        self._head_ms = -1


@cython.final
cdef class Outgoing:
    """A message or a batch, ready to be sent; see mqclient.outgoing."""

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
        """The open fields of the request's header, in its order; born now unless it says when."""
        cdef object born_ms = self.born_timestamp_ms
        if born_ms is None:
            born_ms = milliseconds()
        return (self.sys_flag, born_ms, self.flag, self.properties, self.reconsume_times,
                self.max_reconsume_times)

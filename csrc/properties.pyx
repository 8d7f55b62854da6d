# The properties text: name 0x01 value, pairs separated by 0x02.

cdef extern from "Python.h":
    char *PyBytes_AsString(object text) except NULL
    object PyUnicode_DecodeUTF8(const char *s, Py_ssize_t size, const char *errors)


cdef inline const uint8_t *bytes_pointer(bytes text) except NULL:
    return <const uint8_t *>PyBytes_AsString(text)


cdef inline object text_of(const uint8_t *p, Py_ssize_t size):
    """Text as Java reads it: bytes that are not UTF-8 become U+FFFD."""
    return PyUnicode_DecodeUTF8(<const char *>p, size, b"replace")


cdef inline const uint8_t *find_byte(const uint8_t *p, const uint8_t *end,
                                     int byte) noexcept nogil:
    """First occurrence of a byte in [p, end), else end."""
    cdef const void *found = memchr(p, byte, end - p) if p < end else NULL
    return end if found == NULL else <const uint8_t *>found


cdef dict read_properties(const uint8_t *p, Py_ssize_t size):
    """Every pair with a name and a value; the last one counts if names repeat, as in RocketMQ."""
    cdef dict pairs = {}
    cdef const uint8_t *end = p + size
    cdef const uint8_t *pair_end
    cdef const uint8_t *middle
    while p < end:
        pair_end = find_byte(p, end, 2)
        middle = find_byte(p, pair_end, 1)
        if middle > p and middle + 1 < pair_end:
            pairs[text_of(p, middle - p)] = text_of(middle + 1, pair_end - middle - 1)
        p = pair_end + 1
    return pairs


cdef const uint8_t *property_value(const uint8_t *p, Py_ssize_t size, const uint8_t *name,
                                   Py_ssize_t name_size, Py_ssize_t *value_size) noexcept nogil:
    """Address of the value of a property, or NULL; the last one counts if names repeat."""
    cdef const uint8_t *end = p + size
    cdef const uint8_t *value = NULL
    cdef const uint8_t *pair_end
    while p < end:
        pair_end = find_byte(p, end, 2)
        if pair_end - p > name_size + 1 and p[name_size] == 1 and memcmp(p, name, name_size) == 0:
            value = p + name_size + 1
            value_size[0] = pair_end - value
        p = pair_end + 1
    return value


cdef object find_property(const uint8_t *p, Py_ssize_t size, bytes name):
    """The value of one property without decoding the others, or None."""
    cdef Py_ssize_t value_size = 0
    cdef const uint8_t *value = property_value(p, size, bytes_pointer(name), len(name),
                                               &value_size)
    return None if value == NULL else text_of(value, value_size)


def decode_properties(bytes text not None):
    """Read the properties text of a message into a dict, in stored order.

    Pairs without a name or without a value are skipped, as RocketMQ does. Never raises.
    """
    return read_properties(bytes_pointer(text), len(text))


def encode_properties(properties):
    """Write properties as stored text: `name 0x01 value`, separated by 0x02, UTF-8.

    A pair whose value is None is left out. A value may hold 0x01: the first one of a pair ends
    its name, as in RocketMQ's parser. Raises ValueError for 0x02, and for 0x01 in a name, because
    other pairs would be damaged, and TypeError for other types than str.
    """
    cdef list parts = []
    for name, value in properties.items():
        if value is None:
            continue
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"property {name!r}={value!r}: name and value must be str")
        if "\x01" in name or "\x02" in name or "\x02" in value:
            raise ValueError(f"property {name!r} holds 0x01 or 0x02, which separate properties")
        parts.append(f"{name}\x01{value}")
    return "\x02".join(parts).encode()

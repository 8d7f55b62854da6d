/* Big-endian loads and stores that need no alignment. */
#ifndef MQSTACK_ENDIAN_H
#define MQSTACK_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline uint16_t mq_load_u16(const unsigned char *p) {
    return (uint16_t)((uint16_t)p[0] << 8 | (uint16_t)p[1]);
}

static inline uint32_t mq_load_u32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t mq_load_u64(const unsigned char *p) {
    return (uint64_t)mq_load_u32(p) << 32 | (uint64_t)mq_load_u32(p + 4);
}

/* Which of the eight bytes loaded into `word` is the first, in memory, with its top bit set;
 * `word` has no other bits and is not 0. */
static inline int mq_first_byte(uint64_t word) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_ctzll(word) >> 3;
#else
    unsigned char bytes[8];
    int i = 0;
    memcpy(bytes, &word, 8);
    while (i < 7 && bytes[i] == 0) i++;
    return i;
#endif
}

/* `word` without that byte. */
static inline uint64_t mq_without_first_byte(uint64_t word) {
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return word & (word - 1);
#else
    unsigned char bytes[8];
    memcpy(bytes, &word, 8);
    bytes[mq_first_byte(word)] = 0;
    memcpy(&word, bytes, 8);
    return word;
#endif
}

#endif

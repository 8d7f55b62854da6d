/* Big-endian loads and stores that need no alignment. */
#ifndef MQSTACK_ENDIAN_H
#define MQSTACK_ENDIAN_H

#include <stdint.h>

static inline uint16_t mq_load_u16(const unsigned char *p) {
    return (uint16_t)((uint16_t)p[0] << 8 | (uint16_t)p[1]);
}

static inline uint32_t mq_load_u32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint64_t mq_load_u64(const unsigned char *p) {
    return (uint64_t)mq_load_u32(p) << 32 | (uint64_t)mq_load_u32(p + 4);
}

#endif

/* hardware.c - the built-in table of devices, hardware.def. */

#include <tenure/estimate.h>

#include "base/base.h"

#define HARDWARE_RATE(tera) ((tera) < 0 ? TN_RATE_UNKNOWN : (tera)*1e12)

static const tn_hardware hardware_table[] = {
#define TN_HARDWARE(text, long_text, gib, gb_per_s, single, half, brain, since)                    \
    {.name = text,                                                                                 \
     .title = long_text,                                                                           \
     .memory = (uint64_t)(gib) << 30,                                                              \
     .bytes_per_s = (gb_per_s)*1e9,                                                                \
     .fp32 = HARDWARE_RATE(single),                                                                \
     .fp16 = HARDWARE_RATE(half),                                                                  \
     .bf16 = HARDWARE_RATE(brain),                                                                 \
     .year = since},
#include "estimate/hardware.def"
#undef TN_HARDWARE
};

uint32_t tn_hardware_count(void) {
    return (uint32_t)(sizeof hardware_table / sizeof *hardware_table);
}

const tn_hardware *tn_hardware_at(uint32_t index) {
    return index < tn_hardware_count() ? &hardware_table[index] : NULL;
}

const tn_hardware *tn_hardware_find(const char *name) {
    for (uint32_t i = 0; i < tn_hardware_count(); i++)
        if (tn__alike(hardware_table[i].name, name)) return &hardware_table[i];
    return NULL;
}

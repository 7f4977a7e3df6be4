/* hardware.c - the built-in table of devices, which hardware.def contains. */

#include <tenure/estimate.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define HARDWARE_NAME_MOST 32

/* Returns the usable bytes of a device. A positive `mib` is in MiB; a negative one is a fraction of
 * the memory in thousandths. */
#define HARDWARE_USABLE(gib, mib)                                                                  \
    ((mib) > 0 ? (uint64_t)(mib) << 20 : ((uint64_t)(gib) << 30) / 1000 * (uint64_t)(-(mib)))
#define HARDWARE_RATE(tera) ((tera) < 0 ? TN_RATE_UNKNOWN : (tera)*1e12)

static const tn_hardware hardware_table[] = {
#define TN_HARDWARE(text, long_text, gib, mib, gb_per_s, single, half, brain, since)               \
    {.name = text,                                                                                 \
     .title = long_text,                                                                           \
     .memory = (uint64_t)(gib) << 30,                                                              \
     .usable = HARDWARE_USABLE(gib, mib),                                                          \
     .measured = (mib) > 0,                                                                        \
     .bytes_per_s = (gb_per_s)*1e9,                                                                \
     .fp32 = HARDWARE_RATE(single),                                                                \
     .fp16 = HARDWARE_RATE(half),                                                                  \
     .bf16 = HARDWARE_RATE(brain),                                                                 \
     .year = since},
#include "report/estimate/hardware.def"
#undef TN_HARDWARE
};

uint32_t tn_hardware_count(void) {
    return (uint32_t)(sizeof hardware_table / sizeof *hardware_table);
}

const tn_hardware *tn_hardware_at(uint32_t index) {
    return index < tn_hardware_count() ? &hardware_table[index] : NULL;
}

/* Copies a name without a unit, such as "A100-80" for "A100-80GB", because users may write the
 * unit. */
static void hardware_without_unit(const char *name, char text[HARDWARE_NAME_MOST]) {
    size_t length = strlen(name);
    bool has_unit = length > 2 && isdigit((unsigned char)name[length - 3]) &&
                    tolower((unsigned char)name[length - 2]) == 'g' &&
                    tolower((unsigned char)name[length - 1]) == 'b';
    snprintf(text, HARDWARE_NAME_MOST, "%.*s", (int)(has_unit ? length - 2 : length), name);
}

const tn_hardware *tn_hardware_find(const char *name) {
    char text[HARDWARE_NAME_MOST];
    if (strlen(name) >= sizeof text) return NULL;
    hardware_without_unit(name, text);
    for (uint32_t i = 0; i < tn_hardware_count(); i++)
        if (tn__alike(hardware_table[i].name, text)) return &hardware_table[i];
    return NULL;
}

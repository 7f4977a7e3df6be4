/* scaling.h - draws the speed of a training against the number of devices. */
#ifndef TN_REPORT_SCALING_H
#define TN_REPORT_SCALING_H

#include "base/base.h"

typedef struct tn__scaling_row {
    uint64_t devices, tensor, pipeline, data, interleave;
    double seconds, share; /* per iteration; share of the devices' peak rate */
    uint64_t bytes;        /* on the device that has most */
} tn__scaling_row;

typedef struct tn__scaling {
    const char *input, *device;
    uint64_t memory;             /* of a device; 0: unknown */
    const tn__scaling_row *rows; /* in ascending order of devices */
    uint32_t count;              /* 1 or more */
} tn__scaling;

tn_status tn__scaling_write(const tn__scaling *scaling, const char *path, tn_error *error);

#endif

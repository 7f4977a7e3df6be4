/* events.h - CUDA's streams and events, for turns. */
#ifndef TN_TORCH_EVENTS_H
#define TN_TORCH_EVENTS_H

#include "memory/device/cuda.h"
#include "memory/device/stream_fences.h"

/* `cuda` outlives them; its device is the current one whenever they are used. */
void tn__events_turns(tn__stream_fences *turns, const tn_context *context, const tn__cuda *cuda);

#endif

/* timeline_lanes.c - finds the lanes of a rank. */
#include "report/timeline.h"

static bool lanes_same(const tn__line_lane *lane, const tn__span *span) {
    return lane->lane == (tn__track)span->lane && lane->stream == span->stream;
}

static bool lanes_before(const tn__line_lane *lane, const tn__span *span) {
    if (lane->lane != (tn__track)span->lane) return lane->lane < (tn__track)span->lane;
    return lane->stream < span->stream;
}

uint32_t tn__line_lane_of(const tn__line_lane *lanes, uint32_t count, const tn__span *span) {
    uint32_t at = 0;
    while (at + 1 < count && !lanes_same(&lanes[at], span)) at++;
    return at;
}

/* Inserts each lane in order; lanes beyond the limit are merged into the last one. */
uint32_t tn__line_lanes(const tn__line_run *run, tn__line_lane lanes[TN__LINE_LANES_MOST]) {
    uint32_t count = 0;
    for (size_t i = 0; i < run->count; i++) {
        const tn__span *span = &run->spans[i];
        uint32_t at = 0;
        while (at < count && lanes_before(&lanes[at], span)) at++;
        if ((at < count && lanes_same(&lanes[at], span)) || count == TN__LINE_LANES_MOST) continue;
        memmove(&lanes[at + 1], &lanes[at], (count - at) * sizeof *lanes);
        lanes[at] = (tn__line_lane){(tn__track)span->lane, span->stream};
        count++;
    }
    return count;
}

/* copy.c - copies swapped data with stores that bypass the caches.
 *
 * memcpy uses such stores only for larger sizes than those of a link's transfers, and copies one
 * page after the other. Here lines of several pages are copied in turn, which keeps several of the
 * processor's prefetchers and memory banks busy: 11 GB/s on one core where memcpy reaches 7 (Xeon,
 * copies of 1 to 64 MiB). It is slower than memcpy for data that is read right afterwards and fits
 * into a cache.
 */
#include "memory/device/copy.h"

/* Sanitizers check only plain stores, so builds with them do not use these functions. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COPY_IS_WATCHED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COPY_IS_WATCHED
#endif

#if defined(__SSE2__) && !defined(COPY_IS_WATCHED)
#include <emmintrin.h>

/* limit in bytes below which copying through the cache is faster */
#define COPY_LEAST ((uint64_t)1 << 18)
#define COPY_LINE 64u
#define COPY_PAGE 4096u
#define COPY_PAGES 4u /* number of pages of which cache lines are copied in turn */
/* distance in bytes, within a page, by which prefetching runs ahead of reading */
#define COPY_AHEAD 512u

/* Copies one cache line. `to` must be a multiple of 16. */
static void copy_line(uint8_t *to, const uint8_t *from) {
    const __m128i *source = (const void *)from;
    __m128i *target = (void *)to;
    _mm_prefetch((const char *)from + COPY_AHEAD, _MM_HINT_T0);
    __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
}

static void copy_pages(uint8_t *to, const uint8_t *from) {
    for (uint32_t at = 0; at < COPY_PAGE; at += COPY_LINE)
        for (uint32_t page = 0; page < COPY_PAGES; page++)
            copy_line(to + page * COPY_PAGE + at, from + page * COPY_PAGE + at);
}

void tn__copy_past_caches(void *to, const void *from, uint64_t size) {
    const uint64_t piece = (uint64_t)COPY_PAGES * COPY_PAGE;
    uint8_t *target = to;
    const uint8_t *source = from;
    uint64_t before = (0 - (uintptr_t)target) & (COPY_LINE - 1), at = before;
    if (size < COPY_LEAST) {
        memcpy(to, from, size);
        return;
    }
    memcpy(target, source, before);
    for (; size - at >= piece; at += piece) copy_pages(target + at, source + at);
    _mm_sfence();
    memcpy(target + at, source + at, size - at);
}

#else
void tn__copy_past_caches(void *to, const void *from, uint64_t size) { memcpy(to, from, size); }
#endif

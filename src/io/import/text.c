/* text.c - makes text for people from names in files, and lists that fit into a message. */
#include <stdio.h>

#include "io/import/dims.h"

/* Bytes of the well-formed UTF-8 character at `bytes` (Unicode 15, table 3-7), or 0; control
 * characters count as ill-formed. */
static size_t text_character(const uint8_t *bytes, size_t left) {
    uint8_t first = bytes[0];
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < length) return 0;
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* The number of bytes at the start of the span that need no change. */
static size_t text_clean(tn__span span) {
    size_t at = 0;
    while (at < span.size) {
        uint8_t first = span.bytes[at];
        if (first >= 0x20 && first < 0x7f) { /* the usual case */
            at++;
            continue;
        }
        size_t length = text_character(span.bytes + at, span.size - at);
        if (!length) break;
        at += length;
    }
    return at;
}

void tn__span_text(tn__text *text, tn__span span) {
    while (span.size) {
        size_t clean = text_clean(span);
        tn__text_add(text, (const char *)span.bytes, clean);
        if (clean == span.size) return;
        tn__text_add(text, "\xef\xbf\xbd", 3);
        span.bytes += clean + 1;
        span.size -= clean + 1;
    }
}

char *tn__span_copy(tn__arena *arena, tn__span span) {
    if (text_clean(span) == span.size)
        return tn__arena_string(arena, span.size ? (const char *)span.bytes : "", span.size);
    tn__text text;
    tn__text_init(&text, arena->context);
    tn__span_text(&text, span);
    char *copy = text.failed ? NULL : tn__arena_string(arena, text.data, text.size);
    tn__text_release(&text);
    return copy;
}

void tn__mend(char *text) {
    size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        size_t length = text_character((const uint8_t *)text + at, size - at);
        if (!length) text[at] = '?';
        at += length ? length : 1;
    }
}

/* --- lists --- */

#define TEXT_TAIL 24u /* ", and 4294967295 more" */

tn__list tn__list_begin(char *text, size_t room) {
    text[0] = 0;
    return (tn__list){.text = text, .room = room};
}

void tn__list_add(tn__list *list, const char *format, ...) {
    char item[160];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(item, sizeof item, format, arguments);
    va_end(arguments);
    size_t need = length < 0 ? 0 : (size_t)length < sizeof item ? (size_t)length : sizeof item - 1;
    const char *comma = list->count ? ", " : "";
    if (list->left_out || list->size + need + 2 + TEXT_TAIL >= list->room) {
        list->left_out++;
        return;
    }
    list->size +=
        (size_t)snprintf(list->text + list->size, list->room - list->size, "%s%s", comma, item);
    list->count++;
}

const char *tn__list_end(tn__list *list) {
    if (list->left_out)
        snprintf(list->text + list->size, list->room - list->size, "%s%u more",
                 list->count ? ", and " : "", list->left_out);
    return list->text;
}

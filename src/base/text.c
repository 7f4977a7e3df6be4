/* text.c - a growing string, and the escapes that make any bytes valid in JSON, HTML and SVG.
 *
 * If memory is exhausted, the string remembers it, so that callers can build a whole document and
 * check once.
 */
#include "base/base.h"

#include <stdio.h>

void tn__text_init(tn__text *text, const tn_context *context) {
    *text = (tn__text){.context = context};
}

void tn__text_release(tn__text *text) {
    tn__free(text->context, text->data, text->room);
    tn__text_init(text, text->context);
}

static char *text_room(tn__text *text, size_t more) {
    size_t need;
    if (text->failed || __builtin_add_overflow(text->size, more, &need) || need == SIZE_MAX ||
        !tn__reserve(text->context, &text->data, &text->room, need + 1, 1)) {
        text->failed = true;
        return NULL;
    }
    return text->data + text->size;
}

void tn__text_add(tn__text *text, const char *bytes, size_t size) {
    char *at = text_room(text, size);
    if (at == NULL) return;
    if (size != 0) memcpy(at, bytes, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void tn__text_put(tn__text *text, const char *string) {
    tn__text_add(text, string, strlen(string));
}

void tn__text_printf(tn__text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *at = length < 0 ? NULL : text_room(text, (size_t)length);
    if (length < 0) text->failed = true;
    if (at != NULL) {
        vsnprintf(at, (size_t)length + 1, format, again);
        text->size += (size_t)length;
    }
    va_end(again);
}

/* Returns the length of the well-formed UTF-8 sequence at `s`, or 0 if there is no such sequence
 * (RFC 3629: no overlong forms, no surrogates). It never reads past the first byte that is wrong,
 * so the terminating zero byte ends it. */
static size_t text_utf8(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    size_t length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return length;
}

#define TEXT_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void tn__text_utf8(tn__text *text, const char *string) {
    const unsigned char *at = (const unsigned char *)string;
    while (*at != '\0') {
        size_t length = text_utf8(at);
        tn__text_add(text, length != 0 ? (const char *)at : TEXT_REPLACEMENT,
                     length != 0 ? length : sizeof TEXT_REPLACEMENT - 1);
        at += length != 0 ? length : 1;
    }
}

size_t tn__text_code(const char *string, uint32_t *code) {
    const unsigned char *at = (const unsigned char *)string;
    size_t length = text_utf8(at);
    if (length == 0) return 0;
    *code = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) *code = *code << 6 | (at[i] & 0x3fu);
    return length;
}

bool tn__text_unprintable(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
                  {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

size_t tn__text_escape(uint32_t code, char to[13]) {
    if (code <= 0xffff) return (size_t)snprintf(to, 13, "\\u%04x", code);
    uint32_t over = code - 0x10000;
    return (size_t)snprintf(to, 13, "\\u%04x\\u%04x", 0xd800 + (over >> 10),
                            0xdc00 + (over & 0x3ff));
}

void tn__text_json(tn__text *text, const char *string) {
    tn__text_add(text, "\"", 1);
    const unsigned char *plain = (const unsigned char *)string, *at = plain;
    while (*at != '\0') {
        uint32_t code = 0;
        size_t length = tn__text_code((const char *)at, &code);
        bool escape = code == '"' || code == '\\' || code == '<' || tn__text_unprintable(code);
        if (length != 0 && !escape) {
            at += length;
            continue;
        }
        tn__text_add(text, (const char *)plain, (size_t)(at - plain));
        char escaped[13];
        if (length == 0)
            tn__text_put(text, TEXT_REPLACEMENT);
        else if (code == '"' || code == '\\')
            tn__text_printf(text, "\\%c", *at);
        else
            tn__text_add(text, escaped, tn__text_escape(code, escaped));
        plain = at += length != 0 ? length : 1;
    }
    tn__text_add(text, (const char *)plain, (size_t)(at - plain));
    tn__text_add(text, "\"", 1);
}

static const char *text_entity(unsigned char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    /* control characters are replaced, because XML 1.0 does not allow most of them, not even
     * escaped */
    default:
        return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ? TEXT_REPLACEMENT : NULL;
    }
}

void tn__text_xml(tn__text *text, const char *string) {
    const unsigned char *plain = (const unsigned char *)string, *at = plain;
    while (*at != '\0') {
        size_t length = text_utf8(at);
        /* U+FFFE and U+FFFF are replaced, because XML 1.0 does not allow them */
        if (length == 3 && at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe) length = 0;
        /* whether the sequence is one of the control characters U+0080 to U+009F */
        bool is_c1 = at[0] == 0xc2 && length == 2 && at[1] <= 0x9f;
        const char *entity = length == 1            ? text_entity(*at)
                             : length == 0 || is_c1 ? TEXT_REPLACEMENT
                                                    : NULL;
        if (entity == NULL) {
            at += length;
            continue;
        }
        tn__text_add(text, (const char *)plain, (size_t)(at - plain));
        tn__text_put(text, entity);
        at += length == 2 ? 2 : 1;
        plain = at;
    }
    tn__text_add(text, (const char *)plain, (size_t)(at - plain));
}

bool tn__take_integer(const char **text, size_t *size, int64_t *value) {
    bool minus = *size > 0 && **text == '-';
    size_t at = minus ? 1 : 0, digits = 0;
    int64_t result = 0;
    for (; at < *size && (*text)[at] >= '0' && (*text)[at] <= '9'; at++, digits++) {
        int64_t digit = (*text)[at] - '0';
        if (__builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, minus ? -digit : digit, &result))
            return false;
    }
    *text += at;
    *size -= at;
    *value = result;
    return digits > 0;
}

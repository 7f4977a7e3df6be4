/* visible.c - no control character of a name in a file reaches the terminal.
 *
 * All text for people goes through stdout and stderr, which are variables (streams.h). This file
 * replaces both by streams that write an escape (\x1b, \u009b) for every control character except
 * newline and tab, and for a byte of 0x80 to 0x9f that is no part of a UTF-8 character. So code
 * that prints a name needs no check. Code that moves the cursor (the progress bar) uses the
 * terminal's own stream, cli_terminal. Files that are written to standard output bypass these
 * streams; those that keep control characters as they are go to no terminal (standard.c).
 */
#define _GNU_SOURCE /* fopencookie */
#include "cli/cli.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

typedef struct visible_stream {
    int descriptor;
    bool after_c2; /* the first byte of U+0080 to U+00BF was read and not written yet */
    int following; /* bytes of a longer character that are still to come */
} visible_stream;

static visible_stream visible_out = {.descriptor = STDOUT_FILENO};
static visible_stream visible_error = {.descriptor = STDERR_FILENO};
static FILE *visible_terminal;
#ifndef __GLIBC__
FILE *cli_stdout, *cli_stderr;
#endif

static bool visible_write(int descriptor, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t wrote = write(descriptor, bytes, size);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return false;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return true;
}

/* Writes the visible form of one byte to `to`; returns its length. */
static size_t visible_show(visible_stream *stream, unsigned char byte, char *to) {
    bool after = stream->after_c2, second = byte >= 0x80 && byte <= 0x9f;
    size_t size = 0;
    stream->after_c2 = byte == 0xc2;
    if (after && second) return (size_t)sprintf(to, "\\u%04x", byte);
    if (after) to[size++] = (char)0xc2;
    if (byte == 0xc2) return size;
    bool alone = second && stream->following == 0; /* a control character of 8-bit terminals */
    stream->following = byte >= 0xf0                            ? 3
                        : byte >= 0xe0                          ? 2
                        : byte >= 0xc3                          ? 1
                        : byte >= 0x80 && stream->following > 0 ? stream->following - 1
                                                                : 0;
    if (alone) return size + (size_t)sprintf(to + size, "\\x%02x", byte);
    if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f)
        return size + (size_t)sprintf(to + size, "\\x%02x", byte);
    to[size++] = (char)byte;
    return size;
}

static ssize_t visible_put(void *self, const char *bytes, size_t size) {
    char shown[4096 + 16];
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        used += visible_show(self, (unsigned char)bytes[i], shown + used);
        if (used < 4096 && i + 1 < size) continue;
        if (!visible_write(((visible_stream *)self)->descriptor, shown, used)) return 0;
        used = 0;
    }
    return (ssize_t)size;
}

static FILE *visible_open(visible_stream *stream, int buffering) {
    FILE *made = fopencookie(stream, "w", (cookie_io_functions_t){.write = visible_put});
    if (made != NULL && setvbuf(made, NULL, buffering, BUFSIZ) == 0) return made;
    static const char text[] = "tenure: error: out of memory for standard output\n";
    (void)visible_write(STDERR_FILENO, text, sizeof text - 1);
    _exit(tn_status_exit_code(TN_E_NO_MEMORY));
}

void cli_show_controls(void) {
    visible_terminal = cli_first_stderr();
    stdout = visible_open(&visible_out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    stderr = visible_open(&visible_error, _IONBF);
}

FILE *cli_terminal(void) { return visible_terminal; }

int cli_descriptor(FILE *stream) {
    int descriptor = fileno(stream);
    if (descriptor >= 0) return descriptor;
    return stream == stderr ? STDERR_FILENO : STDOUT_FILENO;
}

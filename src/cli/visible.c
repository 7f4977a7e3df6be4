/* visible.c - no character of a name in a file controls the terminal.
 *
 * All text for people goes through stdout and stderr, which are variables (streams.h). This file
 * replaces both by streams that write an escape for control characters other than newline and tab,
 * for marks that hide or reorder text (\x1b, \u202e), and for bytes that are not UTF-8. So code
 * that prints a name needs no check. Code that moves the cursor (the progress bar) uses the
 * terminal's own stream, cli_terminal. Files that are written to standard output bypass these
 * streams; those that keep such characters as they are go to no terminal (standard.c).
 */
#define _GNU_SOURCE /* fopencookie */
#include "cli/cli.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

typedef struct visible_stream {
    int descriptor;
    size_t held;   /* bytes of a character whose last bytes are still to come */
    char bytes[5]; /* [held], NUL-terminated */
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

/* The bytes of the character that begins with this byte; 1 if none does. */
static size_t visible_length(unsigned char first) {
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
}

/* Writes the visible form of the held bytes to `to`; returns its length. */
static size_t visible_show_held(visible_stream *stream, char *to) {
    uint32_t code;
    size_t held = stream->held, used = 0;
    stream->bytes[held] = '\0';
    stream->held = 0;
    if (tn__text_code(stream->bytes, &code) == held) {
        if (held > 1 && tn__text_unprintable(code)) return tn__text_escape(code, to);
        if (held > 1 || !tn__text_unprintable(code) || code == '\n' || code == '\t') {
            memcpy(to, stream->bytes, held);
            return held;
        }
    }
    for (size_t i = 0; i < held; i++)
        used += (size_t)sprintf(to + used, "\\x%02x", (unsigned char)stream->bytes[i]);
    return used;
}

/* Takes one byte, and writes the visible form of complete characters; returns its length. */
static size_t visible_show(visible_stream *stream, unsigned char byte, char *to) {
    bool goes_on = (byte & 0xc0) == 0x80;
    size_t used = stream->held > 0 && !goes_on ? visible_show_held(stream, to) : 0;
    stream->bytes[stream->held++] = (char)byte;
    if (stream->held < visible_length((unsigned char)stream->bytes[0])) return used;
    return used + visible_show_held(stream, to + used);
}

static ssize_t visible_put(void *self, const char *bytes, size_t size) {
    char shown[4096 + 32];
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

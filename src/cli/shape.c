/* shape.c - the width of text for people, and filling it into lines. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SHAPE_COLUMNS 80u /* without a terminal */
#define SHAPE_FEWEST 40u
#define SHAPE_MOST 4096u

uint32_t cli_columns(FILE *to) {
    const char *given = getenv("COLUMNS");
    struct winsize size = {0};
    unsigned long columns = given != NULL ? strtoul(given, NULL, 10) : 0;
    if (columns == 0 && isatty(cli_descriptor(to)) &&
        ioctl(cli_descriptor(to), TIOCGWINSZ, &size) == 0)
        columns = size.ws_col;
    if (columns == 0) columns = SHAPE_COLUMNS;
    if (columns < SHAPE_FEWEST) return SHAPE_FEWEST;
    return columns < SHAPE_MOST ? (uint32_t)columns : SHAPE_MOST;
}

void cli_fill(FILE *to, const char *text, uint32_t at, uint32_t indent, uint32_t columns) {
    bool begun = false;
    while (*text != '\0') {
        size_t length = strcspn(text, " \n");
        if (begun && length > 0 && at + 1 + length > columns) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
            begun = false;
        }
        if (length > 0) fprintf(to, "%s%.*s", begun ? " " : "", (int)length, text);
        at += (uint32_t)length + begun;
        begun = begun || length > 0;
        text += length;
        text += *text != '\0';
    }
    fputc('\n', to);
}

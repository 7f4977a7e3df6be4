/* streams.h - stdout and stderr as variables, which they are in glibc only. visible.c replaces both
 * streams; `-o -` and --quiet send the text for people elsewhere. */
#ifndef TN_CLI_STREAMS_H
#define TN_CLI_STREAMS_H

#include <stdio.h>

/* The C library's own stream. */
static inline FILE *cli_first_stderr(void) { return stderr; }

#ifndef __GLIBC__
extern FILE *cli_stdout, *cli_stderr; /* set by cli_show_controls */
#undef stdout
#undef stderr
#define stdout cli_stdout
#define stderr cli_stderr
#define printf(...) fprintf(stdout, __VA_ARGS__)
#define puts(text) fprintf(stdout, "%s\n", text)
#define putchar(byte) fputc(byte, stdout)
#endif

#endif

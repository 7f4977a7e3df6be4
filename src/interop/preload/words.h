/* words.h - the settings that such libraries read from the environment, and the messages they
 * print. */
#ifndef TN_PRELOAD_WORDS_H
#define TN_PRELOAD_WORDS_H

#include <tenure/pool.h>

/* Prints "tenure: what: detail" on standard error; `detail` may be "". */
void tn__say(const char *what, const char *detail);
/* Reads a size; if it is not set, *bytes is unchanged. False: it cannot be read; a message was
 * printed. */
bool tn__say_setting(const char *name, uint64_t *bytes);
/* Prints use and plan of a pool: "tenure: 999 large blocks; at most ..." */
void tn__say_numbers(tn_pool *pool, const char *what);

#endif

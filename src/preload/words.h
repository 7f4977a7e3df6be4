/* words.h - what the libraries of this kind read from the environment, and what they say. */
#ifndef TN_PRELOAD_WORDS_H
#define TN_PRELOAD_WORDS_H

#include <tenure/pool.h>

/* "tenure: what: detail" on standard error; `detail` may be "". */
void tn__say(const char *what, const char *detail);
/* Reads a size; one that is not set leaves *bytes. False: it cannot be read, which was said. */
bool tn__say_setting(const char *name, uint64_t *bytes);
/* What was used and learned: "tenure: 999 large blocks; at most ..." */
void tn__say_numbers(tn_pool *pool, const char *what);

#endif

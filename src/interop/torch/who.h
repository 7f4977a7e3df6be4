/* who.h - finds the line of a Python program that asks for memory. */
#ifndef TN_TORCH_WHO_H
#define TN_TORCH_WHO_H

#include <stdbool.h>
#include <stddef.h>

enum { TN__WHO_MAX = 120 }; /* bytes of a name, with its terminating zero */

/* Looks for Python in this process. False: it is not present, or lacks a function. */
bool tn__who_open(void);
/* "train.py:31" for the calling thread: the innermost line that is not in torch itself. Waits for
 * Python's lock: call it without holding any of ours. False: no such line, as in the threads of the
 * backward pass; then `name` is "". */
bool tn__who_asks(char name[TN__WHO_MAX]);

#endif

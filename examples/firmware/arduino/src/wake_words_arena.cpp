/* The memory of the arena. Sketches include the header only. */
#define WAKE_WORDS_DEFINE
#include "wake_words_arena.h"

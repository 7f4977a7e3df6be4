/* The memory of the arena, whose size the build computes (tenure_arena.py). */
#define WAKE_WORDS_DEFINE
#include "wake_words_arena.h"

#include <Arduino.h>

void setup() {
    Serial.begin(115200);
    Serial.println(static_cast<unsigned long>(sizeof wake_words_arena));
}

void loop() {}

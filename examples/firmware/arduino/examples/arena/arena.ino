/* Prints the size of the arena. A sketch with TensorFlow Lite Micro passes the array to its
 * interpreter, together with the model that has the plan inside:
 *     static tflite::MicroInterpreter interpreter(model, resolver, wake_words_arena,
 *                                                 WAKE_WORDS_ARENA_SIZE);
 */
#include <wake_words_arena.h>

void setup() {
    Serial.begin(115200);
    Serial.print("bytes of the tensor arena: ");
    Serial.println(static_cast<unsigned long>(sizeof wake_words_arena));
}

void loop() {}

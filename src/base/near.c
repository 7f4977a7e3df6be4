/* near.c - finds the name that a mistyped word was probably meant to be: the one with the fewest
 * wrong letters.
 *
 * The distance between two words is optimal string alignment: each inserted, deleted or replaced
 * letter, and each swap of two neighbours, counts one. Case, and characters that separate words, do
 * not count. A name is similar if the wrong letters are at most a third of the word's length,
 * rounded up. A name that only continues a word of at least four letters has one wrong letter.
 * Cost: O(letters of one word * letters of the other). Source: Damerau, "A technique for computer
 * detection and correction of spelling errors" (1964).
 */
#include "base/base.h"

#include <ctype.h>
#include <stdio.h>

#define NEAR_LETTERS 48u /* longer words are not corrected */

static char near_letter(char letter) {
    if (letter == '_' || letter == ' ') return '-';
    return (char)tolower((unsigned char)letter);
}

bool tn__alike(const char *a, const char *b) {
    for (;; a++, b++) {
        while (near_letter(*a) == '-') a++;
        while (near_letter(*b) == '-') b++;
        if (near_letter(*a) != near_letter(*b)) return false;
        if (*a == '\0') return true;
    }
}

static uint32_t near_least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t near_distance(const char *a, uint32_t a_length, const char *b, uint32_t b_length) {
    uint32_t rows[3][NEAR_LETTERS + 1];
    uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (uint32_t j = 0; j <= b_length; j++) last[j] = before[j] = j;
    for (uint32_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (uint32_t j = 1; j <= b_length; j++) {
            char x = near_letter(a[i - 1]), y = near_letter(b[j - 1]);
            row[j] = near_least(near_least(last[j], row[j - 1]) + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == near_letter(b[j - 2]) && y == near_letter(a[i - 2]))
                row[j] = near_least(row[j], before[j - 2] + 1);
        }
        uint32_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    uint32_t least = last[b_length];
    /* a misspelt beginning is enough: "greddy" finds "greedy-by-size" */
    for (uint32_t j = 2; j < b_length; j++)
        if (near_letter(b[j]) == '-') least = near_least(least, last[j] + 1);
    return least;
}

tn__near tn__near_begin(const char *word) { return (tn__near){.word = word}; }

void tn__near_try(tn__near *near, const char *name) {
    size_t length = strlen(near->word), other = strlen(name);
    if (length < 2 || length > NEAR_LETTERS || other > NEAR_LETTERS) return;
    uint32_t wrong = near_distance(near->word, (uint32_t)length, name, (uint32_t)other);
    bool begins = length >= 4 && other > length && strncmp(near->word, name, length) == 0;
    if (tn__alike(near->word, name)) wrong = 0;
    if (begins) wrong = near_least(wrong, 1);
    if (wrong > (length < 4 ? 1 : (length + 2) / 3)) return;
    if (near->name != NULL && wrong >= near->wrong) return;
    near->name = name;
    near->wrong = wrong;
}

const char *tn__near_ask(const tn__near *near, const char *otherwise, char text[TN__NEAR_TEXT]) {
    if (near->name != NULL)
        snprintf(text, TN__NEAR_TEXT, "did you mean '%.48s'?", near->name);
    else
        snprintf(text, TN__NEAR_TEXT, "%s", otherwise);
    return text;
}

const char *tn__near_of(const char *word, uint32_t count, const char *(*name)(uint32_t),
                        const char *otherwise, char text[TN__NEAR_TEXT]) {
    tn__near near = tn__near_begin(word);
    for (uint32_t i = 0; i < count; i++) tn__near_try(&near, name(i));
    return tn__near_ask(&near, otherwise, text);
}

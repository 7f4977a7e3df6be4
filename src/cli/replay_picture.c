/* replay_picture.c - draws the bytes that each pool has reserved after each event, as lines over
 * one time axis.
 *
 * A trace of a million events has a thousand for each column of the drawing. A column shows the
 * largest value of its events, so no peak is lost. The requested bytes are an area below the lines:
 * the gap to a line is memory that the pool reserved without a request.
 */
#include <stdio.h>

#include "base/base.h"
#include "cli/replay.h"
#include "report/svg/svg.h"

enum { PICTURE_WIDTH = 1000, PICTURE_HEIGHT = 480, PICTURE_LEGEND = 824 };
static const tn__svg_box picture_box = {84, 84 + CLI_REPLAY_COLUMNS, 54, 430};

/* Okabe and Ito's colours, which most people can distinguish; dashes from the second round on. */
static const char *const picture_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#000000", "#56b4e9"};
enum { PICTURE_COLOURS = sizeof picture_colours / sizeof *picture_colours };

/* Columns are events while there are fewer of them. */
static uint64_t picture_columns(const cli_replay_picture *picture) {
    return picture->event_count < CLI_REPLAY_COLUMNS ? picture->event_count : CLI_REPLAY_COLUMNS;
}

void cli_replay_curve(cli_replay_picture *picture, const char *name, bool fits,
                      const uint64_t *bytes) {
    uint64_t columns = picture_columns(picture), count = picture->event_count;
    if (picture->line_count == CLI_REPLAY_CURVES_MAX) return;
    cli_replay_line *line = &picture->lines[picture->line_count++];
    *line = (cli_replay_line){.name = name, .fits = fits};
    for (uint64_t c = 0; c < columns; c++) {
        uint64_t first = c * count / columns, last = (c + 1) * count / columns;
        line->most[c] = bytes[first];
        for (uint64_t i = first; i < last && line->most[c] != UINT64_MAX; i++)
            if (bytes[i] != UINT64_MAX && bytes[i] > line->most[c]) line->most[c] = bytes[i];
        if (line->most[c] != UINT64_MAX && line->most[c] > line->peak) line->peak = line->most[c];
    }
}

static void picture_point(tn__text *text, const char *command, double value) {
    tn__text_put(text, command);
    tn__svg_number(text, value);
}

static void picture_line(const cli_replay_picture *picture, uint32_t number, double top,
                         tn__text *text) {
    const cli_replay_line *line = &picture->lines[number];
    uint64_t columns = picture_columns(picture);
    double width = (picture_box.right - picture_box.left) / (double)columns, x = picture_box.left;
    tn__text_put(text, "<path d=\"");
    picture_point(text, "M", x);
    picture_point(text, " ", picture_box.bottom);
    for (uint64_t c = 0; c < columns && line->most[c] != UINT64_MAX; c++) {
        double height = (picture_box.bottom - picture_box.top) * (double)line->most[c] / top;
        if (c == 0 || line->most[c] != line->most[c - 1])
            picture_point(text, "V", picture_box.bottom - height);
        picture_point(text, "H", x = picture_box.left + width * (double)(c + 1));
    }
    if (number == 0) {
        picture_point(text, "V", picture_box.bottom);
        tn__text_put(text, "Z\" fill=\"#d9d9d9\"/>\n");
        return;
    }
    tn__text_printf(text, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s/>\n",
                    picture_colours[(number - 1) % PICTURE_COLOURS],
                    number > PICTURE_COLOURS ? " stroke-dasharray=\"5 3\"" : "");
}

static void picture_legend(const cli_replay_picture *picture, uint32_t number, tn__text *text) {
    const cli_replay_line *line = &picture->lines[number];
    char size[TN_SIZE_TEXT_MAX], words[128];
    double y = picture_box.top + 10 + 34 * number;
    tn_size_format(line->peak, size);
    size[strcspn(size, "(")] = '\0';
    if (number == 0)
        tn__text_put(text, "<rect fill=\"#d9d9d9\" width=\"18\" height=\"10\"");
    else
        tn__text_printf(text, "<rect fill=\"%s\" width=\"18\" height=\"3\"",
                        picture_colours[(number - 1) % PICTURE_COLOURS]);
    tn__svg_attribute(text, "x", PICTURE_LEGEND);
    tn__svg_attribute(text, "y", y - (number == 0 ? 9 : 5));
    tn__text_put(text, "/>\n");
    tn__svg_words(text, PICTURE_LEGEND + 24, y, "class=\"name\"", line->name);
    snprintf(words, sizeof words, "%s%s", line->fits ? "at most " : "does not fit; reserved ",
             size);
    tn__svg_words(text, PICTURE_LEGEND + 24, y + 14, "class=\"peak\"", words);
}

tn_status cli_replay_draw(const cli_replay_picture *picture, const char *path, tn_error *error) {
    tn__text text;
    double top = 1;
    for (uint32_t i = 0; i < picture->line_count; i++)
        if ((double)picture->lines[i].peak > top) top = (double)picture->lines[i].peak;
    top *= 1.04; /* keeps the highest line off the frame */
    double legend_end = picture_box.top + 34 * (picture->line_count + 1);
    int height = legend_end > PICTURE_HEIGHT ? (int)legend_end : PICTURE_HEIGHT;
    tn__text_init(&text, NULL);
    tn__text_printf(&text,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                    "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
                    "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
                    PICTURE_WIDTH, height, PICTURE_WIDTH, height, PICTURE_WIDTH, height);
    tn__svg_words(&text, picture_box.left, 24, "font-size=\"15\" font-weight=\"600\"",
                  "Bytes reserved by each pool");
    tn__svg_words(&text, picture_box.left, 42, "fill=\"#555\"", picture->title);
    picture_line(picture, 0, top, &text); /* the area, then the grid, then the lines */
    tn__svg_frame(&text, &picture_box);
    tn__svg_time_axis(&text, &picture_box, 0, (int64_t)picture->event_count);
    tn__svg_byte_axis(&text, &picture_box, 0, top, top);
    for (uint32_t i = 1; i < picture->line_count; i++) picture_line(picture, i, top, &text);
    tn__svg_words(&text, (picture_box.left + picture_box.right) / 2 - 20, picture_box.bottom + 38,
                  "fill=\"#555\"", "event");
    for (uint32_t i = 0; i < picture->line_count; i++) picture_legend(picture, i, &text);
    tn__text_put(&text, "</svg>\n");
    tn_status status = text.failed ? tn__no_memory(error, "a picture")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

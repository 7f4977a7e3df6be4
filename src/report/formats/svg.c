/* svg.c - draws a picture for papers: the map of addresses over time, the curve of live bytes below
 * it, and a legend.
 *
 * The map has the rectangles that the HTML page shows, each with a tooltip. A rectangle of less
 * than a quarter of a square unit cannot be seen alone, and no viewer opens a file with a hundred
 * thousand tooltips. Therefore only the largest visible rectangles, at most SVG_MOST, are drawn one
 * by one. The others are drawn as filled cells of a grid of units, which is written as horizontal
 * runs. <desc> says how many rectangles are drawn in each way.
 *
 * Cost: O(n log n + area of the grid) for n rectangles.
 */
#include <math.h>
#include <stdio.h>

#include "report/svg/svg.h"

enum {
    SVG_WIDTH = 1000,
    SVG_LEFT = 84,
    SVG_RIGHT = 986,
    SVG_MAP_TOP = 66,
    SVG_MAP_BOTTOM = 506,
    SVG_CURVE_TOP = 556,
    SVG_CURVE_BOTTOM = 676,
    SVG_LEGEND = 716,
    SVG_TRADE_TOP = 776, /* the curve is below a legend of up to three lines */
    SVG_TRADE_BOTTOM = 906,
    SVG_MOST = 8000,
    SVG_SHADES = 3,
    SVG_LABELS = 150
};
#define SVG_SEEN 0.25 /* area in square units below which a rectangle cannot be seen alone */
#define SVG_COLUMNS (SVG_RIGHT - SVG_LEFT)
#define SVG_ROWS (SVG_MAP_BOTTOM - SVG_MAP_TOP)
/* item of a rectangle for bytes of a buffer that belong to no tensor */
#define SVG_RESERVED UINT32_MAX

typedef struct svg_rect {
    double x, y, width, height; /* position and size in units of the drawing; y grows downwards */
    uint32_t item, style;
} svg_rect;

typedef struct svg_picture {
    tn__text *text;
    tn__scene scene;
    tn__curve curve;
    svg_rect *rects; /* [rect_count] the rectangles of the map, sorted by style, then by item */
    uint32_t rect_count, single_count;
    double *bank_base;     /* [bank_count] address at which each bank begins in the map */
    double top, curve_top; /* the highest address and the most live bytes that the picture shows */
} svg_picture;

/* --- scales --- */

static const tn__svg_box svg_map_box = {SVG_LEFT, SVG_RIGHT, SVG_MAP_TOP, SVG_MAP_BOTTOM};
static const tn__svg_box svg_trade_box = {SVG_LEFT, SVG_RIGHT, SVG_TRADE_TOP, SVG_TRADE_BOTTOM};
static const tn__svg_box svg_curve_box = {SVG_LEFT, SVG_RIGHT, SVG_CURVE_TOP, SVG_CURVE_BOTTOM};

static double svg_x(const svg_picture *picture, int64_t at) {
    return tn__svg_time(&svg_map_box, picture->scene.first, picture->scene.last, at);
}
static double svg_y(const svg_picture *picture, double address) {
    return SVG_MAP_BOTTOM - address / picture->top * SVG_ROWS;
}
static double svg_curve_y(const svg_picture *picture, uint64_t bytes) {
    return SVG_CURVE_BOTTOM -
           (double)bytes / picture->curve_top * (SVG_CURVE_BOTTOM - SVG_CURVE_TOP);
}

/* --- rectangles --- */

/* Returns the shade of the item with this number. A hash scatters the shades: if they were used in
 * turn, corresponding tensors of all layers could get one shade, because layers repeat. */
static uint32_t svg_shade(uint32_t number) { return (number * 0x9e3779b1u >> 16) % SVG_SHADES; }

_Static_assert(TN__ROLE_COUNT <= TN__KIND_COUNT && TN_FATE_COUNT <= TN__KIND_COUNT, "groups");

/* Returns the style of a rectangle. Styles are numbered in the order of painting: reserved bytes,
 * tensors, views. Tensors and views are ordered by kind (in a training step by role, in a fit by
 * decision) and shade. All views of a buffer have one shade, so that neighbouring buffers can be
 * distinguished. */
static uint32_t svg_style(const tn__scene *scene, uint32_t item) {
    const tn__report_item *items = scene->items;
    if (item == SVG_RESERVED) return 0;
    bool view = items[item].share == TN_SHARE_VIEW;
    uint32_t colour = scene->phases ? (uint32_t)items[item].role : items[item].kind;
    if (scene->report->fit) colour = (uint32_t)items[item].fate;
    uint32_t group = colour + (view ? TN__KIND_COUNT : 0);
    return 1 + group * SVG_SHADES + svg_shade(view ? items[item].body : item);
}

static void svg_add(svg_picture *picture, uint32_t item, tn_body_id id, const tn_piece *piece) {
    const tn_report *report = picture->scene.report;
    double base = picture->bank_base[report->layout->bank[id]] + (double)report->layout->offset[id];
    double left = svg_x(picture, piece->first), top = svg_y(picture, base + (double)piece->hi);
    picture->rects[picture->rect_count++] =
        (svg_rect){.x = left,
                   .y = top,
                   .width = svg_x(picture, piece->last) - left,
                   .height = svg_y(picture, base + (double)piece->lo) - top,
                   .item = item,
                   .style = svg_style(&picture->scene, item)};
}

static int svg_compare(const void *left, const void *right) {
    const svg_rect *a = left, *b = right;
    if (a->style != b->style) return a->style < b->style ? -1 : 1;
    if (a->item != b->item) return a->item < b->item ? -1 : 1;
    if (a->x != b->x) return a->x < b->x ? -1 : 1; /* pieces of one buffer are sorted by position */
    return (a->y > b->y) - (a->y < b->y);
}

/* Makes the rectangles of the map. With a model, pieces of buffers are drawn as reserved bytes
 * below the tensors. Without a model, the pieces are the buffers. */
static tn_status svg_rects(svg_picture *picture, tn_error *error) {
    tn__scene *scene = &picture->scene;
    bool model = scene->report->occupancy != NULL;
    size_t most = (size_t)scene->item_count + scene->piece_count + 1;
    bool *pieced = tn__arena_array(&scene->arena, (size_t)scene->report->layout->body_count + 1,
                                   sizeof *pieced);
    picture->rects = tn__arena_array(&scene->arena, most, sizeof *picture->rects);
    if (pieced == NULL || picture->rects == NULL) return tn__no_memory(error, "a picture");
    for (size_t p = 0; p < scene->piece_count; p++) {
        /* a problem has no tensors, so item i is buffer i */
        tn_body_id body = scene->pieces[p].body;
        pieced[body] = !model;
        svg_add(picture, model ? SVG_RESERVED : body, body, &scene->pieces[p].piece);
    }
    for (uint32_t i = 0; i < scene->item_count; i++) {
        const tn__report_item *item = &scene->items[i];
        if (pieced[item->body] || item->hi == item->lo) continue;
        tn_piece piece = {.first = item->first, .last = item->last, .lo = item->lo, .hi = item->hi};
        svg_add(picture, i, item->body, &piece);
    }
    if (picture->rect_count > 0)
        qsort(picture->rects, picture->rect_count, sizeof *picture->rects, svg_compare);
    return TN_OK;
}

static int svg_area_compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    /* the order of equal areas does not matter, because only their values are used */
    return (a < b) - (a > b);
}

/* Finds the smallest area of the rectangles that are drawn one by one. */
static tn_status svg_threshold(svg_picture *picture, double *threshold, tn_error *error) {
    uint32_t count = picture->rect_count;
    double *areas = tn__arena_array(&picture->scene.arena, (size_t)count + 1, sizeof *areas);
    if (areas == NULL) return tn__no_memory(error, "a picture");
    for (uint32_t i = 0; i < count; i++)
        areas[i] = picture->rects[i].width * picture->rects[i].height;
    if (count > 0) qsort(areas, count, sizeof *areas, svg_area_compare);
    *threshold = count > SVG_MOST && areas[SVG_MOST] >= SVG_SEEN
                     ? nextafter(areas[SVG_MOST], INFINITY)
                     : SVG_SEEN;
    return TN_OK;
}

static bool svg_is_single(const svg_rect *rect, double threshold) {
    return rect->width * rect->height >= threshold;
}

/* --- drawing the rectangles --- */

/* Returns the mixture of two colour channels with `percent` of the second. */
static unsigned svg_blend(unsigned from, unsigned to, unsigned percent) {
    return (from * (100 - percent) + to * percent + 50) / 100;
}

static const char *svg_base(const tn__scene *scene, uint32_t group) {
    return scene->phases ? tn__words_role_colour((tn__role)group) : tn__words_colour(group);
}

/* Returns the colour of a style. Shades are mixtures with white or black, and views are paler. */
static const char *svg_colour(const tn__scene *scene, uint32_t style, char text[8]) {
    static const struct {
        unsigned to, percent;
    } blends[SVG_SHADES] = {{255, 0}, {255, 22}, {0, 10}};
    if (style == 0) return "#e6e9ee";
    uint32_t kind = (style - 1) / SVG_SHADES, shade = (style - 1) % SVG_SHADES;
    bool view = kind >= TN__KIND_COUNT;
    unsigned long rgb = strtoul(svg_base(scene, kind % TN__KIND_COUNT) + 1, NULL, 16);
    unsigned channel[3];
    for (int i = 0; i < 3; i++) {
        unsigned base = (unsigned)(rgb >> (16 - 8 * i) & 255);
        channel[i] = svg_blend(base, blends[shade].to, blends[shade].percent);
        if (view) channel[i] = svg_blend(channel[i], 255, 25);
    }
    snprintf(text, 8, "#%02x%02x%02x", channel[0] & 255, channel[1] & 255, channel[2] & 255);
    return text;
}

/* Opens the group of rectangles of a style. Decisions of a fit are filled with patterns, and shades
 * are degrees of opacity. */
static void svg_fill(const svg_picture *picture, uint32_t style) {
    uint32_t group = style == 0 ? 0 : (style - 1) / SVG_SHADES;
    tn_fate fate = (tn_fate)(group % TN__KIND_COUNT);
    if (picture->scene.report->fit == NULL || style == 0) {
        char colour[8];
        tn__text_printf(picture->text, "<g fill=\"%s\">\n",
                        svg_colour(&picture->scene, style, colour));
        return;
    }
    tn__text_put(picture->text, "<g ");
    tn__svg_fate_fill(picture->text, fate);
    unsigned shade = (style - 1) % SVG_SHADES, view = group >= TN__KIND_COUNT ? 75 : 100;
    tn__text_printf(picture->text, " opacity=\".%02u\">\n", view - 1 - 12 * shade);
}

/* Writes the tooltip of an item, such as "name, Conv, 1x64x56x56 float32, 802,816 bytes, live 3 to
 * 9, at 1,024". */
static void svg_title(const svg_picture *picture, const tn__report_item *item) {
    tn__text *text = picture->text;
    char bytes[TN__WORDS_MAX], offset[TN__WORDS_MAX];
    uint64_t base = picture->scene.report->layout->offset[item->body];
    tn__step step = tn__step_of(picture->scene.report, item->step);
    tn__text_put(text, "<title>");
    tn__text_xml(text, item->name);
    if (*step.type) {
        tn__text_put(text, ", ");
        tn__text_xml(text, step.type);
    }
    if (item->tensor) {
        tn__text_put(text, ", ");
        tn__words_shape(text, item->tensor);
        tn__text_printf(text, " %s", tn_dtype_name(item->tensor->dtype));
    }
    if (picture->scene.report->fit) tn__text_printf(text, ", %s", tn_fate_name(item->fate));
    tn__text_printf(text, ", %s bytes, live %lld to %lld, at %s</title>",
                    tn__grouped(item->bytes, bytes), (long long)item->first, (long long)item->last,
                    tn__grouped(tn__add_sat(base, item->lo), offset));
}

static void svg_rect_one(const svg_picture *picture, const svg_rect *rect) {
    tn__text *text = picture->text;
    double seam_x = rect->width > 2 ? 0.4 : 0, seam_y = rect->height > 2 ? 0.4 : 0;
    tn__text_put(text, "<rect");
    tn__svg_attribute(text, "x", rect->x);
    tn__svg_attribute(text, "y", rect->y);
    tn__svg_attribute(text, "width", fmax(rect->width - seam_x, 0.1));
    tn__svg_attribute(text, "height", fmax(rect->height - seam_y, 0.1));
    if (rect->item == SVG_RESERVED) {
        tn__text_put(text, "/>\n");
        return;
    }
    tn__text_put(text, ">");
    svg_title(picture, &picture->scene.items[rect->item]);
    tn__text_put(text, "</rect>\n");
}

/* Marks the cells of the grid that a small rectangle covers. */
static void svg_mark(uint8_t *grid, const svg_rect *rect) {
    int x0 = (int)fmin(fmax(rect->x - SVG_LEFT, 0), SVG_COLUMNS - 1);
    int x1 = (int)fmin(fmax(rect->x + rect->width - SVG_LEFT, 0), SVG_COLUMNS - 1);
    int y0 = (int)fmin(fmax(rect->y - SVG_MAP_TOP, 0), SVG_ROWS - 1);
    int y1 = (int)fmin(fmax(rect->y + rect->height - SVG_MAP_TOP, 0), SVG_ROWS - 1);
    if (rect->width < 1) x1 = x0;
    if (rect->height < 1) y1 = y0;
    for (int y = y0; y <= y1; y++) memset(grid + y * SVG_COLUMNS + x0, 1, (size_t)(x1 - x0 + 1));
}

/* Writes the marked cells of the grid as one path of horizontal runs, and clears the grid. */
static void svg_runs(tn__text *text, uint8_t *grid) {
    tn__text_put(text, "<path d=\"");
    for (int y = 0; y < SVG_ROWS; y++) {
        uint8_t *row = grid + y * SVG_COLUMNS;
        for (int x = 0; x < SVG_COLUMNS; x++) {
            int end = x;
            while (end < SVG_COLUMNS && row[end]) end++;
            if (end == x) continue;
            tn__text_printf(text, "M%d %dh%dv1h-%dz", SVG_LEFT + x, SVG_MAP_TOP + y, end - x,
                            end - x);
            x = end;
        }
        memset(row, 0, SVG_COLUMNS);
    }
    tn__text_put(text, "\"/>\n");
}

static tn_status svg_map(svg_picture *picture, double threshold, tn_error *error) {
    tn__text *text = picture->text;
    uint8_t *grid = tn__arena_array(&picture->scene.arena, SVG_ROWS, SVG_COLUMNS);
    if (grid == NULL) return tn__no_memory(error, "a picture");
    for (uint32_t i = 0; i < picture->rect_count;) {
        uint32_t style = picture->rects[i].style;
        bool merged = false;
        svg_fill(picture, style);
        for (; i < picture->rect_count && picture->rects[i].style == style; i++) {
            if (svg_is_single(&picture->rects[i], threshold)) {
                svg_rect_one(picture, &picture->rects[i]);
            } else {
                svg_mark(grid, &picture->rects[i]);
                merged = true;
            }
        }
        if (merged) svg_runs(text, grid);
        tn__text_put(text, "</g>\n");
    }
    return TN_OK;
}

/* --- names in large rectangles --- */

static void svg_labels(const svg_picture *picture) {
    tn__text *text = picture->text;
    uint32_t written = 0;
    tn__text_put(text, "<g font-family=\"monospace\" font-size=\"8\" fill=\"#10151b\" "
                       "pointer-events=\"none\">\n");
    for (uint32_t i = 0; i < picture->rect_count && written < SVG_LABELS; i++) {
        const svg_rect *rect = &picture->rects[i];
        if (rect->item == SVG_RESERVED || rect->width < 48 || rect->height < 11) continue;
        tn__text name;
        tn__text_init(&name, text->context);
        tn__words_cell(&name, picture->scene.items[rect->item].name,
                       (size_t)((rect->width - 6) / 4.9), false);
        if (name.failed) text->failed = true;
        while (name.size > 0 && name.data[name.size - 1] == ' ') name.data[--name.size] = '\0';
        tn__text_put(text, "<text");
        tn__svg_attribute(text, "x", rect->x + 3);
        bool view = picture->scene.items[rect->item].share == TN_SHARE_VIEW;
        tn__svg_attribute(text, "y", view ? rect->y + rect->height - 3 : rect->y + 8.5);
        tn__text_put(text, ">");
        tn__text_xml(text, name.size ? name.data : "");
        tn__text_put(text, "</text>\n");
        tn__text_release(&name);
        written++;
    }
    tn__text_put(text, "</g>\n");
}

/* --- levels of bytes, the curve of live bytes, and the legend --- */

/* Draws a horizontal line for a number of bytes, with its name above or below the line at the
 * right. */
static void svg_level(tn__text *text, double y, const char *name, uint64_t bytes, bool peak) {
    char words[64], iec[TN__WORDS_MAX];
    snprintf(words, sizeof words, "%s %s", name, tn__words_iec(bytes, iec));
    tn__svg_line(text, SVG_LEFT, y, SVG_RIGHT, y,
                 peak ? "stroke=\"#b3003c\" stroke-width=\"1.2\""
                      : "stroke=\"#00694b\" stroke-width=\"1.2\" stroke-dasharray=\"5 4\"");
    tn__svg_words(text, SVG_RIGHT - 5, peak || y + 14 > SVG_CURVE_BOTTOM ? y - 4 : y + 11,
                  peak ? "text-anchor=\"end\" fill=\"#b3003c\""
                       : "text-anchor=\"end\" fill=\"#00694b\"",
                  words);
}

/* Draws the curve of live bytes as a path. Within half a unit only the highest and the lowest value
 * are drawn. */
static void svg_trace(const svg_picture *picture) {
    tn__text *text = picture->text;
    const tn__curve *curve = &picture->curve;
    double bottom = SVG_CURVE_BOTTOM, x = svg_x(picture, curve->at[0]), y = bottom;
    tn__text_put(text, "<path fill=\"#0b5cad\" fill-opacity=\".15\" stroke=\"#0b5cad\" d=\"M");
    tn__svg_number(text, x);
    tn__text_put(text, " ");
    tn__svg_number(text, y);
    for (size_t i = 0; i < curve->count;) {
        x = floor(svg_x(picture, curve->at[i]) * 2 + 0.5) / 2;
        double high = svg_curve_y(picture, curve->live[i]), low = high, next = high;
        for (; i < curve->count && floor(svg_x(picture, curve->at[i]) * 2 + 0.5) / 2 == x; i++) {
            next = svg_curve_y(picture, curve->live[i]);
            high = fmin(high, next);
            low = fmax(low, next);
        }
        const double stops[] = {high, low, next};
        tn__text_put(text, "H");
        tn__svg_number(text, x);
        for (int s = high == low ? 2 : 0; s < 3; s++) {
            tn__text_put(text, "V");
            tn__svg_number(text, stops[s]);
        }
    }
    tn__text_put(text, "V");
    tn__svg_number(text, bottom);
    tn__text_put(text, "\"/>\n");
}

static void svg_curve(const svg_picture *picture) {
    const tn_layout *layout = picture->scene.report->layout;
    tn__svg_byte_axis(picture->text, &svg_curve_box, 0, picture->curve_top, picture->curve_top);
    tn__svg_time_axis(picture->text, &svg_curve_box, picture->scene.first, picture->scene.last);
    if (picture->curve.count > 0) svg_trace(picture);
    tn__svg_frame(picture->text, &svg_curve_box);
    bool same = layout->peak == layout->lower_bound;
    svg_level(picture->text, svg_curve_y(picture, layout->peak),
              same ? "arena = lower bound" : "arena", layout->peak, true);
    if (!same)
        svg_level(picture->text, svg_curve_y(picture, layout->lower_bound), "lower bound",
                  layout->lower_bound, false);
    tn__svg_words(picture->text, SVG_LEFT, SVG_CURVE_TOP - 8, "fill=\"#5b6470\"", "live bytes");
}

static void svg_legend(const svg_picture *picture) {
    const tn__scene *scene = &picture->scene;
    bool occurs[TN__KIND_COUNT] = {false};
    double x = SVG_LEFT, y = SVG_LEGEND;
    for (uint32_t i = 0; i < scene->item_count; i++)
        occurs[scene->phases ? (uint32_t)scene->items[i].role : scene->items[i].kind] = true;
    for (uint32_t group = 0; group < TN__KIND_COUNT; group++) {
        if (!occurs[group]) continue;
        const char *name = scene->phases ? tn__role_words((tn__role)group) : tn__kind_text(group);
        char words[96], iec[TN__WORDS_MAX];
        snprintf(
            words, sizeof words, "%s %s", name,
            tn__words_iec(scene->phases ? scene->role_total[group] : scene->total[group], iec));
        double width = 30 + 6.3 * (double)strlen(words);
        if (x + width > SVG_RIGHT) x = SVG_LEFT, y += 18;
        tn__text_printf(picture->text, "<rect width=\"11\" height=\"11\" rx=\"2\" fill=\"%s\"",
                        svg_base(scene, group));
        tn__svg_attribute(picture->text, "x", x);
        tn__svg_attribute(picture->text, "y", y - 9.5);
        tn__text_put(picture->text, "/>\n");
        tn__svg_words(picture->text, x + 16, y, "fill=\"#1b1f24\"", words);
        x += width;
    }
}

/* --- the picture as a whole --- */

static int svg_height(const tn_report *report) {
    bool trades = report->fit != NULL && report->fit->point_count > 0;
    return trades ? SVG_TRADE_BOTTOM + 28 : SVG_LEGEND + 34;
}

/* Writes one line with the memory of the plan, or with the result of a fit. */
static void svg_facts(const svg_picture *picture) {
    const tn_layout *layout = picture->scene.report->layout;
    char naive[TN__WORDS_MAX], peak[TN__WORDS_MAX], bound[TN__WORDS_MAX];
    tn__text facts;
    tn__text_init(&facts, picture->text->context);
    if (picture->scene.report->fit != NULL)
        tn__svg_fit_words(&facts, picture->scene.report->fit);
    else
        tn__text_printf(
            &facts, "without reuse %s, arena %s, lower bound %s (%s, planner %s)",
            tn__words_iec(picture->scene.naive, naive), tn__words_iec(layout->peak, peak),
            tn__words_iec(layout->lower_bound, bound), tn__words_verdict(picture->scene.report),
            layout->planner ? layout->planner : "none");
    uint32_t events;
    tn_problem_events(picture->scene.report->problem, &events);
    if (events > 0 && layout->waits < UINT32_MAX)
        tn__text_printf(&facts, ", %u waits added (arrows)", (unsigned)layout->waits);
    if (facts.failed) picture->text->failed = true;
    tn__svg_words(picture->text, SVG_LEFT, 45, "font-size=\"12\"", facts.size ? facts.data : "");
    tn__text_release(&facts);
}

static void svg_head(const svg_picture *picture, double threshold) {
    tn__text *text = picture->text;
    const tn_layout *layout = picture->scene.report->layout;
    uint32_t single = 0;
    for (uint32_t i = 0; i < picture->rect_count; i++)
        single += svg_is_single(&picture->rects[i], threshold);
    tn__text_printf(text,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                    "font-family=\"system-ui, Helvetica, Arial, sans-serif\" font-size=\"11\" "
                    "fill=\"#5b6470\">\n<title>",
                    SVG_WIDTH, svg_height(picture->scene.report));
    tn__text_xml(text, picture->scene.report->input);
    tn__text_printf(text,
                    " - memory plan</title>\n<desc>%u %s in %u buffers. Of %u rectangles, %u are "
                    "drawn one by one; %u are too small or too many and are merged into cells of "
                    "one unit. What has no size is not drawn.</desc>\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                    picture->scene.item_count,
                    picture->scene.report->occupancy ? "tensors" : "items", layout->body_count,
                    picture->rect_count, single, picture->rect_count - single);
    tn__svg_words(text, SVG_LEFT, 26, "font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\"",
                  picture->scene.report->input);
    svg_facts(picture);
    if (picture->scene.report->fit != NULL) tn__svg_fate_patterns(text);
}

/* Draws the boundaries between banks as lines, with the name of each bank below its top. */
static void svg_banks(const svg_picture *picture) {
    const tn_report *report = picture->scene.report;
    for (tn_bank_id id = 0; id < tn_problem_bank_count(report->problem); id++) {
        double base = picture->bank_base[id], size = (double)report->layout->bank_peak[id];
        double bottom = svg_y(picture, base), top = svg_y(picture, base + size);
        if (id > 0)
            tn__svg_line(picture->text, SVG_LEFT, bottom, SVG_RIGHT, bottom, "stroke=\"#5b6470\"");
        if (bottom - top > 12)
            tn__svg_words(picture->text, SVG_LEFT + 4, top + 11,
                          "font-weight=\"600\" fill=\"#1b1f24\" stroke=\"#fff\" "
                          "stroke-width=\"3\" paint-order=\"stroke\"",
                          tn_problem_bank(report->problem, id)->name);
    }
}

/* Returns whether two buffers share bytes that make a wait necessary, and sets *middle to the
 * middle of these bytes. */
static bool svg_wait_bytes(const tn_report *report, const tn_wait *wait, const tn_span *old,
                           const tn_span *fresh, double *middle) {
    const tn_layout *layout = report->layout;
    bool uses = false;
    if (old->body == fresh->body || layout->bank[old->body] != layout->bank[fresh->body])
        return false;
    for (uint32_t i = 0; i < old->use_count && !uses; i++) uses = old->uses[i] == wait->before;
    uint64_t x = layout->offset[old->body], y = layout->offset[fresh->body];
    uint64_t lo = x + old->lo > y + fresh->lo ? x + old->lo : y + fresh->lo;
    uint64_t hi = x + old->hi < y + fresh->hi ? x + old->hi : y + fresh->hi;
    *middle = ((double)lo + (double)hi) / 2;
    return uses && lo < hi;
}

/* Draws an arrow for each wait that the plan adds, from the end of a buffer to the later buffer
 * that uses its bytes. */
static tn_status svg_waits(const svg_picture *picture, tn_error *error) {
    const tn_report *report = picture->scene.report;
    uint32_t events, spans;
    uint64_t count;
    tn_wait *list;
    tn_problem_events(report->problem, &events);
    const tn_span *span = tn_problem_spans(report->problem, &spans);
    if (events == 0) return TN_OK;
    TN_TRY(tn_layout_waits(report->problem, report->layout, 0, &list, &count, NULL, error));
    tn__text_put(picture->text, "<g stroke=\"#b3003c\" stroke-width=\"1.5\" fill=\"#b3003c\">\n");
    for (uint64_t k = 0; k < count; k++) {
        bool drawn = false;
        for (uint32_t j = 0; j < spans && !drawn; j++) {
            if (span[j].first != list[k].after) continue;
            for (uint32_t i = 0; i < spans && !drawn; i++) {
                double middle;
                drawn = svg_wait_bytes(report, &list[k], &span[i], &span[j], &middle);
                if (!drawn) continue;
                const tn_body *old = tn_problem_body(report->problem, span[i].body);
                const tn_body *fresh = tn_problem_body(report->problem, span[j].body);
                double base = picture->bank_base[report->layout->bank[span[i].body]];
                double y = svg_y(picture, base + middle), left = svg_x(picture, old->last);
                double right = svg_x(picture, fresh->first);
                /* the arrow has a minimum length so that it is visible */
                if (right < left + 8) right = left + 8;
                tn__svg_line(picture->text, left - 4, y, right, y, "");
                tn__text_put(picture->text, "<path d=\"M");
                tn__svg_number(picture->text, right);
                tn__text_put(picture->text, " ");
                tn__svg_number(picture->text, y);
                tn__text_printf(picture->text,
                                "l-5 -3v6z\"><title>event %u waits for event %u"
                                "</title></path>\n",
                                list[k].after, list[k].before);
            }
        }
    }
    tn__text_put(picture->text, "</g>\n");
    tn_waits_release(list);
    return TN_OK;
}

static tn_status svg_draw(svg_picture *picture, tn_error *error) {
    const tn_report *report = picture->scene.report;
    double threshold = SVG_SEEN;
    TN_TRY(svg_rects(picture, error));
    TN_TRY(svg_threshold(picture, &threshold, error));
    svg_head(picture, threshold);
    for (tn_bank_id id = 0; id < tn_problem_bank_count(report->problem); id++) {
        bool alone = tn_problem_bank_count(report->problem) == 1;
        tn__svg_byte_axis(picture->text, &svg_map_box, picture->bank_base[id],
                          alone ? picture->top : (double)report->layout->bank_peak[id],
                          picture->top);
    }
    tn__svg_time_axis(picture->text, &svg_map_box, picture->scene.first, picture->scene.last);
    TN_TRY(svg_map(picture, threshold, error));
    svg_labels(picture);
    TN_TRY(svg_waits(picture, error));
    if (tn_problem_bank_count(report->problem) > 1) svg_banks(picture);
    tn__svg_frame(picture->text, &svg_map_box);
    svg_level(picture->text, svg_y(picture, (double)report->layout->peak), "arena",
              report->layout->peak, true);
    svg_curve(picture);
    if (report->fit != NULL) {
        tn__svg_fates(picture->text, &picture->scene.fates, SVG_LEFT, SVG_LEGEND);
        tn__svg_trade(picture->text, &svg_trade_box, report->fit);
    } else {
        svg_legend(picture);
    }
    tn__text_put(picture->text, "</svg>\n");
    return TN_OK;
}

/* Computes the scale of the map. The banks are drawn above each other, so the height of the map is
 * the sum of their peaks. */
static tn_status svg_scale(svg_picture *picture, tn_error *error) {
    tn__scene *scene = &picture->scene;
    const tn_layout *layout = scene->report->layout;
    picture->bank_base =
        tn__arena_array(&scene->arena, layout->bank_count, sizeof *picture->bank_base);
    if (picture->bank_base == NULL) return tn__no_memory(error, "a picture");
    double sum = 0;
    for (tn_bank_id id = 0; id < layout->bank_count; id++) {
        picture->bank_base[id] = sum;
        sum += (double)layout->bank_peak[id];
    }
    uint64_t most =
        layout->lower_bound > picture->curve.peak ? layout->lower_bound : picture->curve.peak;
    picture->top = fmax(sum, 1) * 1.06;
    picture->curve_top = fmax(fmax(sum, (double)most), 1) * 1.25;
    return TN_OK;
}

static tn_status svg_render(const tn_report *report, tn__text *text, tn_error *error) {
    svg_picture picture = {.text = text};
    tn_status status = tn__scene_make(&picture.scene, report, error);
    if (status == TN_OK) status = tn__scene_pieces(&picture.scene, error);
    if (status == TN_OK)
        status = tn__curve_make(&picture.curve, report->problem, report->context, error);
    if (status == TN_OK) status = svg_scale(&picture, error);
    if (status == TN_OK) status = svg_draw(&picture, error);
    tn__curve_release(&picture.curve);
    tn__scene_release(&picture.scene);
    return status;
}

const tn_report_format tn__report_format_svg = {
    .name = "svg",
    .suffix = ".svg",
    .summary = "the picture for print",
    .render = svg_render,
};

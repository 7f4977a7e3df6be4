/* settings.c - options of the command for the settings that messages of the library name.
 *
 * The library knows no command line. Its messages name a setting by the public field or function
 * between backticks: "`dims` N: no dimension has that name". The command prints the words that a
 * user types instead: "--dim N: no dimension has that name". Other words between backticks stay.
 */
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"

static const struct {
    const char *setting, *words;
} settings[] = {
    {"alignment", "--alignment"},
    {"allow", "--allow"},
    {"bucket_bytes", "--bucket"},
    {"capacity", "--capacity"},
    {"dims", "--dim"},
    {"freeze", "--freeze"},
    {"fuse_concat", "--fuse-concat"},
    {"fuse_update", "--fuse-update"},
    {"input_shapes", "--input-shape"},
    {"loss_parts", "--loss-parts"},
    {"loss_scale", "--loss-scale"},
    {"order", "--order"},
    {"pass", "--pass"},
    {"planner", "--planner"},
    {"read_limit", "--read-limit"},
    {"sequence", "--sequence"},
    {"shard", "--shard"},
    {"tn_contents_generate", "--weights random:SEED"},
    {"tn_layout_from_offsets", "--plan FILE"},
    {"tn_weights_bind", "--weights FILE"},
    {"tn_weights_total", "`tenure estimate`"},
    {"values", "--value"},
};

/* NULL: no setting has this name. */
static const char *settings_find(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strlen(settings[i].setting) == length && !memcmp(settings[i].setting, name, length))
            return settings[i].words;
    return NULL;
}

const char *cli_settings(const char *message, tn__text *text) {
    const char *from = message, *words = NULL;
    for (const char *open = strchr(message, '`'); open != NULL; open = strchr(open + 1, '`')) {
        size_t length = strcspn(open + 1, "`");
        if (open[1 + length] != '\0') words = settings_find(open + 1, length);
        if (words == NULL) continue;
        tn__text_add(text, from, (size_t)(open - from));
        tn__text_put(text, words);
        open += 1 + length;
        from = open + 1;
        words = NULL;
    }
    tn__text_put(text, from);
    return text->failed ? message : text->data;
}

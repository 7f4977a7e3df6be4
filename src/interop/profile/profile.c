/* profile.c - groups the samples of a memory profile by source line, kind or device. */
#include "interop/profile/profile.h"

#include <inttypes.h>
#include <stdlib.h>

void tn__profile_destroy(tn__profile *profile) {
    if (profile == NULL) return;
    const tn_context context = profile->context;
    tn__free(&context, profile->samples, profile->sample_room * sizeof *profile->samples);
    tn__free(&context, profile->frames, profile->frame_room * sizeof *profile->frames);
    tn__free(&context, profile->places, profile->place_room * sizeof *profile->places);
    tn__free(&context, (void *)(uintptr_t)profile->words,
             profile->word_room * sizeof *profile->words);
    tn__arena_release(&profile->texts);
    tn__free(&context, profile, sizeof *profile);
}

/* Whether a file belongs to JAX itself. The innermost frames of most stacks are in such files. */
static bool profile_is_jax(const char *file) {
    return strstr(file, "/jax/_src/") != NULL || strstr(file, "/jaxlib/") != NULL ||
           strstr(file, "-packages/jax/") != NULL || strncmp(file, "jax/_src/", 9) == 0;
}

static const tn__profile_frame *profile_frame(const tn__profile *profile,
                                              const tn__profile_sample *sample, uint32_t number) {
    return &profile->places[profile->frames[sample->first + number]];
}

uint32_t tn__profile_outside(const tn__profile *profile, const tn__profile_sample *sample) {
    for (uint32_t i = 0; i < sample->frame_count; i++)
        if (!profile_is_jax(profile_frame(profile, sample, i)->file)) return i;
    return 0;
}

void tn__profile_place(const tn__profile_frame *frame, tn__text *text) {
    const char *slash = strrchr(frame->file, '/');
    const char *file = slash != NULL && slash[1] != 0 ? slash + 1 : frame->file;
    if (file[0] != 0) tn__text_put(text, file);
    if (file[0] != 0 && frame->line > 0) tn__text_printf(text, ":%" PRId64, frame->line);
    if (frame->function[0] != 0)
        tn__text_printf(text, "%s%s", file[0] != 0 ? " " : "", frame->function);
    if (file[0] == 0 && frame->function[0] == 0) tn__text_put(text, "unknown");
}

/* The sums of all samples by group, while they are computed. */
typedef struct profile_sums {
    tn__profile_group *groups;
    size_t count, room;
    uint64_t *largest; /* bytes of the largest sample of each group */
    size_t largest_room;
    tn__names known;
} profile_sums;

static void profile_release(const tn_context *context, profile_sums *sums) {
    tn__free(context, sums->largest, sums->largest_room * sizeof *sums->largest);
    tn__names_release(&sums->known);
}

static bool profile_add(const tn__profile *profile, profile_sums *sums, const char *name,
                        uint32_t number) {
    const tn_context *context = &profile->context;
    const tn__profile_sample *sample = &profile->samples[number];
    uint32_t found;
    if (!tn__names_add(&sums->known, name, strlen(name), (uint32_t)sums->count, &found) ||
        !tn__reserve(context, &sums->groups, &sums->room, sums->count + 1, sizeof *sums->groups) ||
        !tn__reserve(context, &sums->largest, &sums->largest_room, sums->count + 1,
                     sizeof *sums->largest))
        return false;
    if (found == TN__NAMES_NONE) {
        found = (uint32_t)sums->count++;
        sums->groups[found] = (tn__profile_group){.name = name, .sample = number};
        sums->largest[found] = sample->bytes;
    }
    tn__profile_group *group = &sums->groups[found];
    if (sample->bytes > sums->largest[found]) {
        sums->largest[found] = sample->bytes;
        group->sample = number;
    }
    group->bytes += sample->bytes;
    group->count = tn__add_sat(group->count, sample->count);
    return true;
}

/* Returns the name of a sample's group; NULL: out of memory. The name of a source line is made once
 * for each place, and kept in made[place]. */
static const char *profile_name(const tn__profile *profile, const tn__profile_sample *sample,
                                tn__profile_by by, const char **made, tn__arena *names) {
    if (by == TN__PROFILE_BY_KIND) return profile->words[sample->kind];
    if (by == TN__PROFILE_BY_DEVICE) return profile->words[sample->device];
    if (sample->frame_count == 0) return "no stack";
    uint32_t place = profile->frames[sample->first + tn__profile_outside(profile, sample)];
    if (made[place] != NULL) return made[place];
    tn__text text;
    tn__text_init(&text, &profile->context);
    tn__profile_place(&profile->places[place], &text);
    if (!text.failed) made[place] = tn__arena_string(names, text.data, text.size);
    tn__text_release(&text);
    return made[place];
}

static int profile_order(const void *a, const void *b) {
    const tn__profile_group *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return strcmp(x->name, y->name);
}

tn_status tn__profile_groups(const tn__profile *profile, tn__profile_by by, tn__arena *names,
                             tn__profile_group **groups, uint32_t *count, tn_error *error) {
    const tn_context *context = &profile->context;
    size_t places = (size_t)profile->place_count + 1;
    profile_sums sums = {0};
    const char **made = tn__alloc_array(context, places, sizeof *made);
    tn__names_init(&sums.known, context);
    bool fits =
        made != NULL && tn__reserve(context, &sums.groups, &sums.room, 1, sizeof *sums.groups);
    for (uint32_t i = 0; i < profile->sample_count && fits; i++) {
        const char *name = profile_name(profile, &profile->samples[i], by, made, names);
        fits = name != NULL && profile_add(profile, &sums, name, i);
    }
    if (made != NULL) tn__free(context, (void *)(uintptr_t)made, places * sizeof *made);
    size_t size = (sums.count + 1) * sizeof **groups;
    tn__profile_group *exact = fits ? tn__alloc(context, size) : NULL;
    if (exact != NULL) {
        if (sums.count > 0) memcpy(exact, sums.groups, sums.count * sizeof *exact);
        qsort(exact, sums.count, sizeof *exact, profile_order);
        *groups = exact;
        *count = (uint32_t)sums.count;
    }
    tn__free(context, sums.groups, sums.room * sizeof *sums.groups);
    profile_release(context, &sums);
    return exact != NULL ? TN_OK : tn__no_memory(error, "the groups of a profile");
}

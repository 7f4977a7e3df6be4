/* shards.c - reads a checkpoint that several ranks wrote, each to its own file, as one.
 *
 * The file at the given path lists the names and hashes of the others. Each of those holds pieces
 * of tensors. Put together they are the tensors of a single checkpoint (checkpoint.c), in its
 * order, however they were divided. So a run can resume on any number of ranks.
 *
 * Memory: a tensor that was written in one piece is read from the mapped file; other tensors are
 * assembled in memory.
 */
#include <stdio.h>

#include "run/trainer/shards.h"

bool tn__shards_are(const tn__file *file) {
    return file->size >= 8 && memcmp(file->bytes, TN__SHARDS_MAGIC, 8) == 0;
}

typedef struct shards_piece { /* a range of tensor `number` */
    uint32_t number;
    const uint8_t *facts; /* the description of the whole tensor, the same in each piece; */
    size_t told;          /* its size in bytes */
    uint64_t from, size;
    const uint8_t *bytes;
} shards_piece;

typedef struct shards_state {
    tn_checkpoint *checkpoint;
    const char *path;
    shards_piece *pieces;
    size_t count, room;
    tn_error *error;
} shards_state;

/* --- one of the files --- */

static tn_status shards_piece_of(shards_state *it, tn__checkpoint_reader *reader) {
    shards_piece piece = {0};
    tn_kept whole = {0};
    TN_TRY(tn__checkpoint_copy(reader, &piece.number, 4));
    piece.facts = reader->at;
    TN_TRY(tn__checkpoint_facts(reader, &whole));
    piece.told = (size_t)(reader->at - piece.facts);
    TN_TRY(tn__checkpoint_copy(reader, &piece.from, 8));
    TN_TRY(tn__checkpoint_copy(reader, &piece.size, 8));
    if (piece.from > whole.size || piece.size > whole.size - piece.from)
        return tn__checkpoint_damaged(reader);
    TN_TRY(tn__checkpoint_take(reader, piece.size, &piece.bytes));
    if (!tn__reserve(&it->checkpoint->context, &it->pieces, &it->room, it->count + 1,
                     sizeof *it->pieces))
        return tn__no_memory(it->error, "a checkpoint");
    it->pieces[it->count++] = piece;
    return TN_OK;
}

static tn_status shards_file(shards_state *it, const char *path, const tn__shard_entry *entry) {
    tn_checkpoint *checkpoint = it->checkpoint;
    tn__file *file = &checkpoint->shards[checkpoint->shard_count];
    tn__checkpoint_head head;
    TN_TRY(tn__checkpoint_is_file(path, it->error));
    TN_TRY(tn__file_map_beneath(it->path, tn__base_name(path), checkpoint->context.follow_links,
                                file, it->error));
    checkpoint->shard_count++;
    tn__checkpoint_reader reader = {.path = path,
                                    .start = file->bytes,
                                    .at = file->bytes,
                                    .left = file->size,
                                    .error = it->error};
    TN_TRY(tn__checkpoint_head_of(&reader, TN__SHARD_MAGIC, TN__SHARD_LEAST, &head));
    if (file->size != entry->bytes || head.hash != entry->hash)
        TN_FAIL(it->error, TN_E_INVALID, "%.200s is not the file that %.200s was written with",
                path, it->path);
    for (uint32_t i = 0; i < head.count; i++) TN_TRY(shards_piece_of(it, &reader));
    return reader.left == 0 ? TN_OK : tn__checkpoint_damaged(&reader);
}

/* --- assembling --- */

static int shards_order(const void *a, const void *b) {
    const shards_piece *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

static bool shards_same(const shards_piece *a, const shards_piece *b) {
    return a->told == b->told && memcmp(a->facts, b->facts, a->told) == 0;
}

static tn_status shards_whole(const shards_state *it, const shards_piece *piece, tn_kept *kept) {
    tn__checkpoint_reader reader = {.path = it->path,
                                    .start = piece->facts,
                                    .at = piece->facts,
                                    .left = piece->told,
                                    .error = it->error};
    return tn__checkpoint_facts(&reader, kept);
}

/* Pieces [first, last) are all of a tensor: each begins where the previous one ends. */
static tn_status shards_join(shards_state *it, size_t first, size_t last) {
    const shards_piece *pieces = &it->pieces[first];
    tn_kept kept = {0};
    TN_TRY(shards_whole(it, pieces, &kept));
    uint64_t end = 0;
    for (size_t i = 0; i < last - first; i++) {
        if (!shards_same(&pieces[i], pieces) || pieces[i].from != end)
            TN_FAIL(it->error, TN_E_INVALID, "%.200s: of '%.80s' there is not every part once",
                    it->path, kept.name);
        end += pieces[i].size;
    }
    if (end != kept.size)
        TN_FAIL(it->error, TN_E_INVALID, "%.200s: of '%.80s' %llu bytes are missing", it->path,
                kept.name, (unsigned long long)(kept.size - end));
    kept.bytes = pieces->bytes;
    if (last - first > 1) {
        uint8_t *bytes = tn__arena_alloc(&it->checkpoint->arena, (size_t)kept.size);
        if (bytes == NULL) return tn__no_memory(it->error, "a checkpoint");
        for (size_t i = 0; i < last - first; i++)
            if (pieces[i].size > 0)
                memcpy(bytes + pieces[i].from, pieces[i].bytes, (size_t)pieces[i].size);
        kept.bytes = bytes;
    }
    tn__checkpoint_add(it->checkpoint, &kept);
    return TN_OK;
}

static tn_status shards_join_all(shards_state *it) {
    uint32_t tensors = it->count > 0;
    if (it->count > 0) qsort(it->pieces, it->count, sizeof *it->pieces, shards_order);
    for (size_t i = 1; i < it->count; i++)
        tensors += it->pieces[i].number != it->pieces[i - 1].number;
    TN_TRY(tn__checkpoint_room(it->checkpoint, tensors, it->error));
    for (size_t first = 0, last; first < it->count; first = last) {
        for (last = first; last < it->count; last++)
            if (it->pieces[last].number != it->pieces[first].number) break;
        if (it->pieces[first].number != it->checkpoint->count)
            TN_FAIL(it->error, TN_E_INVALID, "%.200s: tensor %u is in none of its parts", it->path,
                    it->checkpoint->count);
        TN_TRY(shards_join(it, first, last));
    }
    return TN_OK;
}

/* --- the whole --- */

/* A shard must lie in the folder of the file that names it. */
static tn_status shards_path(shards_state *it, const char *name, char **path) {
    const char *slash = strrchr(it->path, '/');
    size_t folder = slash != NULL ? (size_t)(slash - it->path) + 1 : 0, length = strlen(name);
    if (length == 0 || strchr(name, '/') != NULL || strcmp(name, "-") == 0)
        TN_FAIL(it->error, TN_E_INVALID, "%.200s names a part that is not beside it", it->path);
    *path = tn__arena_alloc(&it->checkpoint->arena, folder + length + 1);
    if (*path == NULL) return tn__no_memory(it->error, "a checkpoint");
    memcpy(*path, it->path, folder);
    memcpy(*path + folder, name, length + 1);
    return TN_OK;
}

/* The number of the part must be in its name, so an index cannot name one file twice. */
static bool shards_is_part(const char *name, uint32_t part, uint32_t parts) {
    char end[40];
    snprintf(end, sizeof end, ".%u-of-%u", part, parts);
    size_t length = strlen(name), ends = strlen(end);
    return length > ends && strcmp(name + length - ends, end) == 0;
}

static tn_status shards_all(shards_state *it, tn__checkpoint_reader *reader, uint32_t count) {
    tn_checkpoint *checkpoint = it->checkpoint;
    checkpoint->shards =
        tn__arena_array(&checkpoint->arena, (size_t)count + 1, sizeof *checkpoint->shards);
    if (checkpoint->shards == NULL) return tn__no_memory(it->error, "a checkpoint");
    for (uint32_t i = 0; i < count; i++) {
        tn__shard_entry entry;
        const uint8_t *name = NULL;
        uint32_t length;
        char *path = NULL;
        TN_TRY(tn__checkpoint_copy(reader, &length, 4));
        TN_TRY(tn__checkpoint_take(reader, (size_t)length + 1, &name));
        TN_TRY(tn__checkpoint_copy(reader, &entry, sizeof entry));
        if (memchr(name, 0, (size_t)length + 1) != name + length)
            return tn__checkpoint_damaged(reader);
        if (!shards_is_part((const char *)name, i, count))
            TN_FAIL(it->error, TN_E_INVALID, "%.200s: what it names as part %u of %u is '%.80s'",
                    it->path, i, count, (const char *)name);
        TN_TRY(shards_path(it, (const char *)name, &path));
        TN_TRY(shards_file(it, path, &entry));
    }
    if (reader->left != 0) return tn__checkpoint_damaged(reader);
    return shards_join_all(it);
}

tn_status tn__shards_read(tn_checkpoint *checkpoint, const char *path, tn_error *error) {
    tn__checkpoint_head head;
    const tn__file *file = &checkpoint->file;
    checkpoint->path = tn__arena_string(&checkpoint->arena, path, strlen(path));
    if (checkpoint->path == NULL) return tn__no_memory(error, "a checkpoint");
    shards_state it = {.checkpoint = checkpoint, .path = checkpoint->path, .error = error};
    tn__checkpoint_reader reader = {.path = checkpoint->path,
                                    .start = file->bytes,
                                    .at = file->bytes,
                                    .left = file->size,
                                    .error = error};
    TN_TRY(tn__checkpoint_head_of(&reader, TN__SHARDS_MAGIC, TN__SHARD_NAMED, &head));
    checkpoint->run = head.run;
    tn_status status = shards_all(&it, &reader, head.count);
    tn__free(&checkpoint->context, it.pieces, it.room * sizeof *it.pieces);
    return status;
}

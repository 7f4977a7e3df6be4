/* shards.c - writes a checkpoint of several ranks, each to its own file, and reads the files as one
 * checkpoint.
 *
 * The file at the given path, the index, lists names and hashes of the other files, the shards.
 * Each shard holds pieces of tensors. Put together, the pieces are the tensors of a single
 * checkpoint (checkpoint.c), in the same order, however the ranks divided them. So a run can resume
 * on any number of ranks.
 *
 * Memory: a tensor that was written in one piece is read from the mapped file; other tensors are
 * assembled in memory.
 */
#include "graph/element.h"
#include "run/trainer/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- writing ---------------------------------------------------------------------------------- */

/* Writes a checkpoint of several ranks to several files.
 *
 *     run.ck                  names the others: "run.ck.7.0-of-2", "run.ck.7.1-of-2"
 *     run.ck.7.0-of-2         ranges of tensors, of generation 7
 *     run.ck.7.1-of-2         the other ranges of these tensors
 *     run.ck.6.0-of-2         deleted as soon as run.ck does not name it any more
 *
 * The number of a new generation is higher than all existing ones, so a file that run.ck names is
 * never overwritten. The index that names the new files is written when all of them are on disk,
 * and replaces the old index by one rename. So run.ck names complete files even if the process is
 * killed at any time. Files that a killed run left are deleted at the next checkpoint.
 */

/* largest number of characters after the path, in the name of a shard */
#define WRITE_NAME_ROOM 64u

/* --- names --- */

/* Makes the name of the shard with number `part`. `path` is the path of the checkpoint, or only its
 * last component. The name is allocated from the context, with *room bytes. Returns NULL if memory
 * is exhausted. */
static char *write_name(const char *path, const tn__shard_job *job, uint32_t part,
                        const tn_context *context, size_t *room) {
    *room = strlen(path) + WRITE_NAME_ROOM;
    char *name = tn__alloc(context, *room);
    if (name != NULL)
        snprintf(name, *room, "%s.%llu.%u-of-%u", path, (unsigned long long)job->turn.generation,
                 part, job->parts);
    return name;
}

static const char *write_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Parses decimal digits and returns the address after them. Returns NULL if there are no digits, or
 * too many. */
static const char *write_digits(const char *text, uint64_t *number) {
    const char *at = text;
    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        if (*number > UINT64_MAX / 10 - 1) return NULL;
        *number = *number * 10 + (uint64_t)(*at - '0');
    }
    return at > text ? at : NULL;
}

/* Whether `end` is the suffix that tn__file_write gives to a temporary file until the file is
 * complete. */
static bool write_is_begun(const char *end) {
    uint64_t number;
    const char *at = *end == '.' ? write_digits(end + 1, &number) : NULL;
    if (at == NULL || *at != '-' || (at = write_digits(at + 1, &number)) == NULL) return false;
    return strcmp(at, ".part") == 0;
}

/* Whether `name` is the name of a shard of `base`, or of a temporary file for one. *generation: set
 * to the generation of the shard. */
static bool write_is_shard(const char *name, const char *base, uint64_t *generation) {
    uint64_t number;
    size_t length = strlen(base);
    if (strncmp(name, base, length) != 0 || name[length] != '.') return false;
    *generation = 0;
    if (write_is_begun(name + length)) return true;
    const char *at = write_digits(name + length + 1, generation);
    if (at == NULL || *at != '.' || (at = write_digits(at + 1, &number)) == NULL) return false;
    if (strncmp(at, "-of-", 4) != 0 || (at = write_digits(at + 4, &number)) == NULL) return false;
    return *at == 0 || write_is_begun(at);
}

/* Opens the folder in which the file `path` lies. Returns NULL on failure. */
static DIR *write_folder(const char *path, const tn_context *context) {
    size_t length = (size_t)(write_base(path) - path);
    char *folder = tn__alloc(context, length + 3);
    if (folder == NULL) return NULL;
    memcpy(folder, length > 0 ? path : "./", length > 0 ? length : 3);
    if (length > 0) folder[length] = 0;
    DIR *made = opendir(folder);
    tn__free(context, folder, length + 3);
    return made;
}

tn_status tn__shards_begin(tn__shard_job *job, const tn_context *context, tn_error *error) {
    uint64_t most = 0, found;
    const char *path = job->path;
    DIR *folder = write_folder(path, context);
    if (folder == NULL)
        return tn__where(error, tn__fail_system(error, errno, "look into its folder"), "%.200s",
                         path);
    for (struct dirent *at = readdir(folder); at != NULL; at = readdir(folder))
        if (write_is_shard(at->d_name, write_base(path), &found) && found > most) most = found;
    closedir(folder);
    job->turn.generation = most + 1;
    job->turn.mode = tn__file_mode(path);
    return TN_OK;
}

void tn__shards_sweep(const char *path, const tn_context *context, uint64_t but) {
    uint64_t found;
    DIR *folder = write_folder(path, context);
    if (folder == NULL) return;
    for (struct dirent *at = readdir(folder); at != NULL; at = readdir(folder))
        if (write_is_shard(at->d_name, write_base(path), &found) && found != but)
            (void)unlinkat(dirfd(folder), at->d_name, 0);
    closedir(folder);
}

/* Syncs the folder of `path` to disk; only then is a rename in it on disk. Returns true if the
 * folder is synced as far as the file system supports it. */
static bool write_sync(const char *path, const tn_context *context) {
    DIR *folder = write_folder(path, context);
    if (folder == NULL) return false;
    /* EINVAL: the file system cannot sync folders */
    bool synced = fsync(dirfd(folder)) == 0 || errno == EINVAL;
    closedir(folder);
    return synced;
}

/* --- one rank's shard --- */

/* Whether the rank with number `part` writes the tensor, or a range of it, to its shard. A tensor
 * that ranks do not divide is written by the first rank. */
static bool write_is_mine(const tn__keep *keep, uint32_t part) {
    return keep->in_shard ? keep->length > 0 || (keep->bytes == 0 && part == 0) : part == 0;
}

static uint64_t write_size(const tn__keeping *keeping, uint32_t part) {
    uint64_t size = sizeof(tn__checkpoint_head);
    for (uint32_t i = 0; i < keeping->count; i++) {
        const tn__keep *keep = &keeping->list[i];
        if (!write_is_mine(keep, part)) continue;
        size = tn__add_sat(size, TN__SHARD_LEAST + strlen(keep->name) + 8 * (uint64_t)keep->rank);
        size = tn__add_sat(size, keep->length);
    }
    return size;
}

static tn_status write_stretch(const tn__keep *keep, tn_engine *engine, uint8_t *to,
                               tn_error *error) {
    if (keep->length == 0) return TN_OK;
    return tn_engine_get_static_at(engine, keep->in, keep->at + (keep->writes - keep->from), to,
                                   keep->length, error);
}

/* Writes the pieces of this rank's shard to `at`. *count: increased by the number of pieces. *odd:
 * set to the name of the first parameter or statistic with an element that is not finite; unchanged
 * if all are finite. */
static tn_status write_fill(uint8_t *at, uint32_t part, tn_engine *engine,
                            const tn__keeping *keeping, uint32_t *count, const char **odd,
                            tn_error *error) {
    for (uint32_t i = 0; i < keeping->count; i++) {
        const tn__keep *keep = &keeping->list[i];
        if (!write_is_mine(keep, part)) continue;
        memcpy(at, &i, 4);
        at = tn__keep_put(at + 4, keep);
        memcpy(at, &keep->writes, 8);
        memcpy(at + 8, &keep->length, 8);
        at += 16;
        TN_TRY(write_stretch(keep, engine, at, error));
        if (keep->role != TN_ROLE_STATE && *odd == NULL &&
            tn__first_odd(at, keep->length, keep->dtype) != TN_SIZE_UNKNOWN)
            *odd = keep->name;
        at += keep->length;
        ++*count;
    }
    return TN_OK;
}

static tn_status write_file(const tn__shard_job *job, uint8_t *file, uint64_t size,
                            tn_engine *engine, const tn__keeping *keeping,
                            const tn_checkpoint_run *run, tn__shard_entry *entry, tn_error *error) {
    const char *odd = NULL;
    size_t room;
    tn__checkpoint_head head = tn__checkpoint_head_make(TN__SHARD_MAGIC, 0, run);
    TN_TRY(write_fill(file + sizeof head, job->part, engine, keeping, &head.count, &odd, error));
    TN_TRY(tn__checkpoint_is_odd(odd, job->path, run, error));
    tn__checkpoint_seal(file, size, &head);
    char *name = write_name(job->path, job, job->part, keeping->context, &room);
    if (name == NULL) return tn__no_memory(error, "a checkpoint");
    tn_status status = tn__file_write_new(name, (uint32_t)job->turn.mode, file, size, error);
    /* a failure is no error here, because the rank that writes the index checks that all shards are
     * there and syncs the folder again */
    (void)write_sync(name, keeping->context);
    tn__free(keeping->context, name, room);
    *entry = (tn__shard_entry){.bytes = size, .hash = head.hash};
    return status;
}

tn_status tn__shards_write(const tn__shard_job *job, tn_engine *engine, const tn__keeping *keeping,
                           const tn_checkpoint_run *run, tn__shard_entry *entry, tn_error *error) {
    if (strcmp(job->path, "-") == 0)
        TN_FAIL(error, TN_E_INVALID, "a checkpoint of several files cannot go to '-'");
    uint64_t size = write_size(keeping, job->part);
    uint8_t *file = tn__alloc_array(keeping->context, size, 1);
    if (file == NULL) return tn__no_memory(error, "a checkpoint");
    tn_status status = write_file(job, file, size, engine, keeping, run, entry, error);
    tn__free(keeping->context, file, size);
    return status;
}

/* --- writing the index file --- */

static uint8_t *write_entry(uint8_t *at, const char *name, const tn__shard_entry *entry) {
    uint32_t length = (uint32_t)strlen(name);
    memcpy(at, &length, 4);
    memcpy(at + 4, name, (size_t)length + 1);
    memcpy(at + 5 + length, entry, sizeof *entry);
    return at + 5 + length + sizeof *entry;
}

/* Checks that the shard with number `part` lies next to `path`, where a reader of the checkpoint
 * looks for it, and has the right size. A rank on another machine may have written its shard to a
 * different folder of the same name. */
static tn_status write_is_there(const tn__shard_job *job, uint32_t part,
                                const tn__shard_entry *entry, const tn_context *context,
                                tn_error *error) {
    struct stat facts;
    size_t room;
    char *name = write_name(job->path, job, part, context, &room);
    if (name == NULL) return tn__no_memory(error, "a checkpoint");
    bool there = stat(name, &facts) == 0 && (uint64_t)facts.st_size == entry->bytes;
    tn__free(context, name, room);
    if (there) return TN_OK;
    TN_FAIL(error, TN_E_IO,
            "%.200s: part %u of %u is not next to it: give all ranks the same file, in a folder "
            "that they share; the checkpoint before this one stays",
            job->path, part, job->parts);
}

static tn_status write_names(const tn__shard_job *job, const tn__shard_entry *entries,
                             const tn_context *context, uint8_t **at, tn_error *error) {
    for (uint32_t i = 0; i < job->parts; i++) {
        size_t room;
        TN_TRY(write_is_there(job, i, &entries[i], context, error));
        char *name = write_name(write_base(job->path), job, i, context, &room);
        if (name == NULL) return tn__no_memory(error, "a checkpoint");
        *at = write_entry(*at, name, &entries[i]);
        tn__free(context, name, room);
    }
    return TN_OK;
}

tn_status tn__shards_name_all(const tn__shard_job *job, const tn__shard_entry *entries,
                              const tn_context *context, const tn_checkpoint_run *run,
                              tn_error *error) {
    size_t most =
        sizeof(tn__checkpoint_head) +
        job->parts * (strlen(write_base(job->path)) + WRITE_NAME_ROOM + (size_t)TN__SHARD_NAMED);
    tn__checkpoint_head head = tn__checkpoint_head_make(TN__SHARDS_MAGIC, job->parts, run);
    uint8_t *file = tn__alloc_array(context, most, 1);
    if (file == NULL) return tn__no_memory(error, "a checkpoint");
    uint8_t *at = file + sizeof head;
    tn_status status = write_names(job, entries, context, &at, error);
    size_t size = (size_t)(at - file);
    tn__checkpoint_seal(file, size, &head);
    /* all shards are on disk before the index names them */
    bool synced = status == TN_OK && write_sync(job->path, context);
    if (status == TN_OK) status = tn__file_write(job->path, file, size, error);
    tn__free(context, file, most);
    if (status != TN_OK) return status;
    /* if the new index may not be on disk yet, the old shards are not deleted */
    synced = write_sync(job->path, context) && synced;
    if (synced) tn__shards_sweep(job->path, context, job->turn.generation);
    return TN_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

bool tn__shards_are(const tn__file *file) {
    return file->size >= 8 && memcmp(file->bytes, TN__SHARDS_MAGIC, 8) == 0;
}

typedef struct shards_piece { /* a range of the tensor with number `number` */
    uint32_t number;
    const uint8_t *facts; /* the description of the whole tensor, the same in each of its pieces */
    size_t fact_bytes;    /* size of the description in bytes */
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

/* --- reading one shard file --- */

static tn_status shards_piece_of(shards_state *it, tn__checkpoint_reader *reader) {
    shards_piece piece = {0};
    tn_kept whole = {0};
    TN_TRY(tn__checkpoint_copy(reader, &piece.number, 4));
    piece.facts = reader->at;
    TN_TRY(tn__checkpoint_facts(reader, &whole));
    piece.fact_bytes = (size_t)(reader->at - piece.facts);
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
    return a->fact_bytes == b->fact_bytes && memcmp(a->facts, b->facts, a->fact_bytes) == 0;
}

static tn_status shards_whole(const shards_state *it, const shards_piece *piece, tn_kept *kept) {
    tn__checkpoint_reader reader = {.path = it->path,
                                    .start = piece->facts,
                                    .at = piece->facts,
                                    .left = piece->fact_bytes,
                                    .error = it->error};
    return tn__checkpoint_facts(&reader, kept);
}

/* Assembles a tensor from all its pieces, those from number `first` up to, but not including,
 * `last`. Each must begin where the previous one ends. */
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

/* --- the checkpoint as a whole --- */

/* Makes the path of a shard from its name. A shard must lie in the folder of the index file that
 * names it. */
static tn_status shards_path(shards_state *it, const char *name, char **path) {
    const char *slash = strrchr(it->path, '/');
    size_t folder = slash != NULL ? (size_t)(slash - it->path) + 1 : 0, length = strlen(name);
    if (length == 0 || strchr(name, '/') != NULL || strcmp(name, "-") == 0)
        TN_FAIL(it->error, TN_E_INVALID, "%.200s names a part that is not next to it", it->path);
    *path = tn__arena_alloc(&it->checkpoint->arena, folder + length + 1);
    if (*path == NULL) return tn__no_memory(it->error, "a checkpoint");
    memcpy(*path, it->path, folder);
    memcpy(*path + folder, name, length + 1);
    return TN_OK;
}

/* Whether the name of a shard ends with the number of its part. This is required, so an index
 * cannot name one file twice. */
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
            TN_FAIL(it->error, TN_E_INVALID,
                    "%.200s: the file it names as part %u of %u is '%.80s'", it->path, i, count,
                    (const char *)name);
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
    checkpoint->version = head.version;
    checkpoint->run = tn__checkpoint_run_of(&head);
    tn_status status = shards_all(&it, &reader, head.count);
    tn__free(&checkpoint->context, it.pieces, it.room * sizeof *it.pieces);
    return status;
}

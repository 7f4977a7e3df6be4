/* shared.c - settings, messages and the trace of requests, for the preloaded library and the
 * PyTorch allocator.
 *
 * The trace writes requests as rows of a file. Rows are collected in the record tn__trace itself
 * and written when it is full. So the trace allocates no memory, and a process that is killed
 * leaves whole rows.
 */
#define _GNU_SOURCE /* memrchr */
#include "interop/preload/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

/* --- settings and messages -------------------------------------------------------------------- */

/* The signals that a write can send: SIGXFSZ beyond a limit on the size of files, SIGPIPE if the
 * reader of a pipe has ended. Both would end the program, which knows nothing of this write. */
static sigset_t write_signals(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    return signals;
}

/* Blocks these signals in the calling thread; the write then fails with EFBIG or EPIPE. *before:
 * set to the signals that were blocked before, for write_end. */
static void write_begin(sigset_t *before) {
    sigset_t signals = write_signals();
    pthread_sigmask(SIG_BLOCK, &signals, before);
}

/* Removes a signal that a write has sent, and unblocks the signals that were not blocked before. */
static void write_end(const sigset_t *before) {
    static const int sent[] = {SIGXFSZ, SIGPIPE};
    const struct timespec at_once = {0};
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, sent[i]);
        /* if it was blocked before, it may be the program's own */
        if (sigismember(before, sent[i]) == 1) continue;
        while (sigtimedwait(&one, NULL, &at_once) == -1 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void tn__say(const char *format, ...) {
    int failure = errno;
    sigset_t before;
    va_list arguments;
    write_begin(&before);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    write_end(&before);
    errno = failure;
}

void tn__message_print(const char *what, const char *detail) {
    tn__say("tenure: %s%s%s\n", what, detail[0] != '\0' ? ": " : "", detail);
}

bool tn__size_setting(const char *name, uint64_t *bytes) {
    const char *text = getenv(name);
    tn_error error = {0};
    if (text == NULL || text[0] == '\0') return true;
    if (tn_size_parse(text, bytes, &error) == TN_OK) return true;
    tn__message_print(name, error.message);
    return false;
}

void tn__pool_print(tn_pool *pool, const char *what) {
    char reserved[TN_SIZE_TEXT_MAX], requested[TN_SIZE_TEXT_MAX], height[TN_SIZE_TEXT_MAX];
    tn_pool_usage usage;
    tn_pool_lesson lesson;
    tn_pool_measure(pool, &usage);
    tn_pool_learned(pool, &lesson);
    tn__say("tenure: %" PRIu64 " %s; at most %s in use, %s reserved; %" PRIu64 " did not fit\n",
            usage.alloc_count - usage.failed_count, what,
            tn_size_format(usage.requested_peak, requested),
            tn_size_format(usage.reserved_peak, reserved), usage.failed_count);
    if (lesson.plans > 0)
        tn__say("tenure: %" PRIu64 " plans served %" PRIu64 " of them, %" PRIu64
                " were surprises; plan in force: %s\n",
                lesson.plans, lesson.served, lesson.surprises,
                lesson.period != 0 ? tn_size_format(lesson.height, height) : "none");
}

/* --- the table of holders --------------------------------------------------------------------- */

enum {
    WATCHED_PATIENCE = 4, /* repetitions after which a step is recognised */
    WATCHED_PATIENCE_MAX = 64,
    WATCHED_LEAST = 64 /* requests; as many are needed for each repetition of a shorter step */
};

bool tn__watch_wanted(void) {
    const char *text = getenv("TENURE_WATCH");
    return text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

void tn__watched_open(tn__watched *watched, const char *source, const tn_context *context) {
    tn_watch_options options = TN_WATCH_OPTIONS_INIT;
    tn_error error = {0};
    *watched = (tn__watched){.patience = WATCHED_PATIENCE, .context = tn__context(context)};
    options.source = source;
    if (tn_watch_create(&options, &watched->watch, &error) == TN_OK) return;
    tn__say("tenure: TENURE_WATCH: %s%s%s\n", error.where, error.where[0] != '\0' ? ": " : "",
            error.message);
}

void tn__watched_close(tn__watched *watched) {
    tn_watch_destroy(watched->watch);
    tn__learn_close(&watched->context, &watched->learn);
    *watched = (tn__watched){0};
}

/* Begins a step if one begins after this request. */
static void watched_step(tn__watched *watched, uint64_t size, uint32_t stream) {
    tn__learn *learn = &watched->learn;
    tn__asked asked = {.size = size, .stream = stream, .birth = ++watched->count};
    (void)tn__learn_ask(&watched->context, learn, &asked);
    uint64_t lag = learn->lag, least = lag > WATCHED_LEAST ? lag : WATCHED_LEAST;
    bool repeats = lag != 0 && learn->run >= tn__mul_sat(watched->patience, least);
    if (watched->period != 0 && lag != watched->period) {
        if (watched->patience < WATCHED_PATIENCE_MAX) watched->patience *= 2;
        watched->period = 0;
    } else if (watched->period == 0 && repeats) {
        watched->period = lag;
        watched->left = 1;
    }
    if (watched->period == 0 || --watched->left > 0) return;
    watched->left = watched->period;
    tn_watch_step(watched->watch);
}

void tn__watched_alloc(tn__watched *watched, const tn_watch_label *label, uint64_t size,
                       uint32_t stream, tn_watch_block *block) {
    tn_watch_alloc(watched->watch, label, size, block);
    if (watched->watch != NULL) watched_step(watched, size, stream);
}

/* --- trace ------------------------------------------------------------------------------------ */

enum { TRACE_ROW_MAX = 256, TRACE_CALL_SITE_MAX = 120, TRACE_FILE = 512, TRACE_PATH_MAX = 4096 };

/* Whether the file descriptor still refers to the trace. If it does not, the program has reused it,
 * and it is not touched. */
static bool trace_is_ours(tn__trace *trace) {
    struct stat now;
    if (trace->file >= 0 && fstat(trace->file, &now) == 0 && now.st_dev == trace->which.st_dev &&
        now.st_ino == trace->which.st_ino)
        return true;
    trace->file = -1;
    trace->used = 0;
    return false;
}

static uint64_t trace_count(const char *rows, size_t size) {
    uint64_t count = 0;
    for (const char *at = rows; (at = memchr(at, '\n', size - (size_t)(at - rows))) != NULL; at++)
        count++;
    return count;
}

/* Ends the trace because the disk is full or fails. The file is cut after its last whole row,
 * unless it is a pipe. No further row is written, and a message is printed once. `done` bytes of
 * the collected rows are in the file. */
static void trace_end(tn__trace *trace, size_t done, int reason) {
    const char *last = done > 0 ? memrchr(trace->rows, '\n', done) : NULL;
    size_t whole = last != NULL ? (size_t)(last - trace->rows) + 1 : 0;
    uint64_t kept = trace_count(trace->rows, whole);
    trace->lost += trace_count(trace->rows, trace->used) - kept;
    trace->kept += kept;
    /* a pipe cannot be cut */
    if (ftruncate(trace->file, (off_t)(trace->written + whole)) != 0) whole = 0;
    close(trace->file);
    trace->file = -1;
    trace->failed = true;
    tn__say("tenure: TENURE_TRACE: the trace ends after %" PRIu64 " rows: %s\n", trace->kept,
            strerror(reason));
}

static void trace_flush(tn__trace *trace) {
    if (!trace_is_ours(trace)) return;
    for (size_t done = 0; done < trace->used;) {
        sigset_t before;
        write_begin(&before);
        ssize_t wrote = write(trace->file, trace->rows + done, trace->used - done);
        int reason = errno;
        write_end(&before);
        errno = reason;
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            trace_end(trace, done, wrote < 0 ? errno : ENOSPC);
            trace->used = 0;
            return;
        }
        done += (size_t)wrote;
    }
    trace->kept += trace_count(trace->rows, trace->used);
    trace->written += trace->used;
    trace->used = 0;
}

/* Makes the file name: the path, with "%p" replaced by the process number. If the plain name
 * belongs to another process, the number is appended. */
static void trace_name(const tn__trace *trace, char *name, size_t room) {
    const char *path = trace->path, *mark = strstr(path, "%p");
    int before = mark != NULL ? (int)(mark - path) : (int)strlen(path);
    if (mark != NULL)
        snprintf(name, room, "%.*s%ld%s", before, path, (long)getpid(), mark + 2);
    else if (trace->is_other)
        snprintf(name, room, "%s.%ld", path, (long)getpid());
    else
        snprintf(name, room, "%s", path);
}

/* Opens and locks the file; -1: another process has it, or it cannot be written. */
static int trace_claim(tn__trace *trace, const char *name) {
    int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return file;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 || (ftruncate(file, 0) != 0 && errno != EINVAL) ||
        fstat(file, &trace->which) != 0) {
        close(file);
        return -1;
    }
    /* moves the descriptor to a number that shells do not use */
    int high = fcntl(file, F_DUPFD_CLOEXEC, TRACE_FILE);
    if (high < 0) return file;
    close(file);
    return high;
}

/* Opens the file. This is done at the first row, so that a process without large blocks (a shell,
 * env) leaves no file. The name is built in the buffer for rows, because stacks of threads may be
 * small. */
static void trace_begin(tn__trace *trace) {
    const char *path = trace->path;
    trace_name(trace, trace->rows, TRACE_PATH_MAX);
    trace->path = NULL;
    trace->file = trace_claim(trace, trace->rows);
    if (trace->file < 0 && !trace->is_other) {
        size_t length = strlen(trace->rows);
        snprintf(trace->rows + length, sizeof trace->rows - length, ".%ld", (long)getpid());
        trace->file = trace_claim(trace, trace->rows);
    }
    if (trace->file < 0) tn__say("tenure: TENURE_TRACE: %s cannot be written\n", path);
    trace->used = (size_t)snprintf(trace->rows, TRACE_ROW_MAX, "action,id,size,alignment%s\n",
                                   trace->has_streams ? ",stream,name" : "");
}

void tn__trace_open(tn__trace *trace, const char *path, bool has_streams) {
    trace->file = -1;
    trace->path = path != NULL && path[0] != '\0' ? path : NULL;
    trace->is_other = false;
    trace->has_streams = has_streams;
    trace->used = 0;
    trace->failed = false;
    trace->written = trace->kept = trace->lost = 0;
}

void tn__trace_yield(tn__trace *trace) { trace->is_other = true; }

/* Returns a buffer for a row; NULL: there is no file. */
static char *trace_row(tn__trace *trace) {
    if (trace->path != NULL) trace_begin(trace);
    if (trace->file >= 0 && sizeof trace->rows - trace->used < TRACE_ROW_MAX) trace_flush(trace);
    trace->lost += trace->failed;
    return trace->file >= 0 ? trace->rows + trace->used : NULL;
}

/* Makes a name fit into one field of a row; the name of a Python file may contain any character. */
static void trace_show(const char *call_site, char shown[TRACE_CALL_SITE_MAX + 1]) {
    size_t length = call_site != NULL ? strnlen(call_site, TRACE_CALL_SITE_MAX) : 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)call_site[i];
        shown[i] = byte < ' ' || byte == 0x7f || byte == ',' || byte == '"' ? '_' : call_site[i];
    }
    shown[length] = '\0';
}

void tn__trace_alloc(tn__trace *trace, uint64_t name, size_t size, size_t alignment,
                     uint32_t stream, const char *call_site) {
    char *row = trace_row(trace);
    if (row == NULL) return;
    char shown[TRACE_CALL_SITE_MAX + 1];
    trace_show(call_site, shown);
    int length = snprintf(row, TRACE_ROW_MAX, "alloc,%" PRIu64 ",%zu,%zu", name, size, alignment);
    if (trace->has_streams)
        length += snprintf(row + length, (size_t)(TRACE_ROW_MAX - length), ",%" PRIu32 ",%s",
                           stream, shown);
    row[length] = '\n';
    trace->used += (size_t)length + 1;
}

void tn__trace_free(tn__trace *trace, uint64_t name) {
    char *row = trace_row(trace);
    if (row == NULL) return;
    trace->used += (size_t)snprintf(row, TRACE_ROW_MAX, "free,%" PRIu64 ",,%s\n", name,
                                    trace->has_streams ? ",," : "");
}

void tn__trace_print(const tn__trace *trace) {
    if (trace->failed)
        tn__say("tenure: trace: %" PRIu64 " rows written, %" PRIu64 " rows lost\n", trace->kept,
                trace->lost);
}

void tn__trace_close(tn__trace *trace) {
    trace->path = NULL;
    if (trace->file < 0) return;
    trace_flush(trace);
    if (trace->file >= 0) close(trace->file);
    trace->file = -1;
}

void tn__trace_leave(tn__trace *trace) {
    trace->path = NULL;
    if (trace_is_ours(trace)) close(trace->file);
    trace->file = -1;
    trace->used = 0;
}

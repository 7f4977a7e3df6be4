/* test_files.c - files that files name, and files that get their name when they are whole. */
#define _GNU_SOURCE /* O_PATH */
#include "../support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

static tn_error failure;
static char folder[64];

static char *at(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, 128, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(at(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tenure-files-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    put("secret", "secret");
    if (mkdir(at("in"), 0777) != 0 || mkdir(at("in/deep"), 0777) != 0) return -1;
    put("in/model", "");
    put("in/data", "data");
    put("in/deep/data", "deep");
    return 0;
}

static int tear_down(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void link_to(const char *target, const char *name) {
    assert_int_equal(symlink(target, at(name)), 0);
}

/* Both ways, the system call and the walk, give the file or the same reason. */
static void opens(const char *name, const char *text, int reason) {
    char got[16] = "";
    int in = open(at("in"), O_PATH | O_DIRECTORY);
    for (int way = 0; way < 2; way++) {
        int file = way == 0 ? tn__open_beneath(at("in/model"), name, false, O_RDONLY, 0)
                            : tn__open_walk(in, name, O_RDONLY);
        int why = errno;
        if (text == NULL && (file >= 0 || why != reason))
            fail_msg("way %d, '%s': %d, %s", way, name, file, strerror(why));
        if (text == NULL) continue;
        if (file < 0) fail_msg("way %d, '%s': %s", way, name, strerror(why));
        memset(got, 0, sizeof got);
        assert_true(read(file, got, sizeof got - 1) >= 0);
        assert_string_equal(got, text);
        close(file);
    }
    close(in);
}

static void a_name_in_a_file_stays_beneath_its_folder(void **state) {
    (void)state;
    link_to("../secret", "in/out");
    link_to("/etc/passwd", "in/absolute");
    link_to("data", "in/same");
    link_to("deep", "in/other");
    link_to("..", "in/deep/up");
    link_to("../..", "in/deep/far");
    link_to("out", "in/twice");
    link_to("turn", "in/turn");
    opens("data", "data", 0);
    opens("./deep//data", "deep", 0);
    opens("deep/../data", "data", 0);
    opens("same", "data", 0);
    opens("other/data", "deep", 0);
    opens("deep/up/data", "data", 0);
    opens("out", NULL, EXDEV);
    opens("twice", NULL, EXDEV);
    opens("absolute", NULL, EXDEV);
    opens("deep/far/secret", NULL, EXDEV);
    opens("../secret", NULL, EXDEV);
    opens("/etc/passwd", NULL, EXDEV);
    opens("other/../../secret", NULL, EXDEV);
    opens("turn", NULL, ELOOP);
    opens("data/", NULL, ENOTDIR);
    opens("none", NULL, ENOENT);
    opens("data/none", NULL, ENOTDIR);
}

static void links_are_followed_only_on_request(void **state) {
    (void)state;
    tn__file file;
    char text[8] = "";
    assert_int_equal(tn__file_map_beneath(at("in/model"), "out", false, &file, &failure),
                     TN_E_OUTSIDE);
    assert_non_null(strstr(failure.message, "'out' leads through a symbolic link"));
    assert_null(strstr(failure.message, "--")); /* options are the command's words */
    assert_int_equal(tn__file_map_beneath(at("in/model"), "out", true, &file, &failure), TN_OK);
    memcpy(text, file.bytes, file.size);
    assert_string_equal(text, "secret");
    tn__file_unmap(&file);
}

static uint32_t count_parts(void) {
    uint32_t count = 0;
    DIR *list = opendir(folder);
    for (struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list))
        count += strstr(entry->d_name, ".part") != NULL;
    closedir(list);
    return count;
}

static void a_new_file_has_its_name_when_it_is_whole(void **state) {
    (void)state;
    tn__new_file file;
    for (int replaces = 0; replaces < 2; replaces++) {
        const char *path = at("new");
        assert_true(tn__new_file_open(&file, path));
        assert_int_equal(write(file.descriptor, "whole", 5), 5);
        assert_int_equal(access(path, F_OK) == 0, replaces);
        assert_true(tn__new_file_keep(&file, true));
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(count_parts(), 0);
    }
    assert_true(tn__new_file_open(&file, at("new")));
    assert_false(tn__new_file_keep(&file, false)); /* there is one */
    assert_int_equal(errno, EEXIST);
    assert_true(tn__new_file_open(&file, at("other")));
    tn__new_file_drop(&file);
    assert_int_equal(access(at("other"), F_OK), -1);
    assert_int_equal(count_parts(), 0);
}

/* Of a process that was killed; not those of a process that lives, or of other names. */
static void unfinished_files_of_dead_processes_are_removed(void **state) {
    (void)state;
    char name[64];
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(name, sizeof name, "run.ck.%ld-0.part", (long)child);
    put(name, "half");
    snprintf(name, sizeof name, "other.ck.%ld-0.part", (long)child);
    put(name, "half");
    snprintf(name, sizeof name, "run.ck.%ld-0.part", (long)getpid());
    put(name, "half");
    put("run.ck.0-0.part", "half");
    put("run.ck.part", "half");
    assert_int_equal(count_parts(), 5);
    tn__new_file_sweep(at("run.ck"));
    assert_int_equal(count_parts(), 4);
    snprintf(name, sizeof name, "run.ck.%ld-0.part", (long)child);
    assert_int_equal(access(at(name), F_OK), -1);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_in_a_file_stays_beneath_its_folder),
        cmocka_unit_test(links_are_followed_only_on_request),
        cmocka_unit_test(a_new_file_has_its_name_when_it_is_whole),
        cmocka_unit_test(unfinished_files_of_dead_processes_are_removed),
    };
    if (set_up(NULL) != 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tear_down(NULL) != 0 ? 1 : failed;
}

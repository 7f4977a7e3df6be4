/* match_document.c - compares what a plan of Tenure states about itself with the plan that its
 * input and its offsets give, for `tenure verify`.
 *
 * Programs that read a plan use more than its offsets: sizes, live ranges, the peak of each pool.
 * So the document is written again, by the function that writes plans, and every member that both
 * documents have must be equal. Members that record how the plan was found (planner, seed, work)
 * cannot be computed again, and are not compared; status and bounds must not contradict the rest.
 */
#include "base/base.h"
#include "cli/model/kernel_target.h"
#include "cli/plan/plan.h"
#include "report/format.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TENURE_MINIMAL
tn_status cli_verify_document(const cli_verify *arguments, const tn_layout *layout) {
    (void)arguments, (void)layout; /* such a build reads no documents */
    return TN_OK;
}
#else
#include "base/json.h"

#define DOCUMENT_PATH 160u /* bytes of the path of a member, such as buffers[3].size */
#define DOCUMENT_TEXT 100u

typedef struct document_match {
    char path[DOCUMENT_PATH];
    /* true: the plan is that of a model, but the input a problem, which knows no tensors */
    bool lacks_tensors;
    tn_error *error;
} document_match;

/* What a plan minimises, and the members of the result that are equal in an optimal plan. The
 * last three are absent in a problem without costs or events. */
static const struct {
    const char *bound, *value;
} document_bounds[] = {[TN_OBJECTIVE_BYTES] = {"lower_bound", "peak"},
                       [TN_OBJECTIVE_PAIRS] = {"reuse_cost_bound", "reuse_cost"},
                       [TN_OBJECTIVE_WAITS] = {"waits_bound", "waits"},
                       [TN_OBJECTIVE_TIME] = {"time_bound", "time"}};
enum { DOCUMENT_OBJECTIVES = sizeof document_bounds / sizeof *document_bounds };

/* Reads a word of the result; *word is NULL if it has no such member. */
static tn_status document_word(const json_t *result, const char *member, const char **word,
                               tn_error *error) {
    const json_t *found = json_object_get(result, member);
    *word = json_string_value(found);
    if (found == NULL || *word != NULL) return TN_OK;
    TN_FAIL(error, TN_E_CONFLICT, "the plan states result.%s, which must be a word", member);
}

/* Reads the objective that the plan states. For a plan that does not state it, *objective is
 * DOCUMENT_OBJECTIVES (unknown) if it may be another one than the bytes. */
static tn_status document_objective(const cli_plan_file *file, const json_t *result,
                                    unsigned *objective, tn_error *error) {
    const char *word;
    TN_TRY(document_word(result, "objective", &word, error));
    *objective = file->has_reuse_cost || file->has_waits ? DOCUMENT_OBJECTIVES : TN_OBJECTIVE_BYTES;
    if (word == NULL) return TN_OK;
    for (*objective = 0; *objective < DOCUMENT_OBJECTIVES; (*objective)++)
        if (strcmp(word, tn_objective_name((tn_objective)*objective)) == 0) return TN_OK;
    TN_FAIL(error, TN_E_CONFLICT, "the plan states result.objective: '%.80s' is none", word);
}

/* Checks that every bound in the result is a whole number, and at most the value that it bounds.
 * The bounds of other objectives than that of the plan are 0. */
static tn_status document_bounded(const json_t *result, unsigned objective, tn_error *error) {
    for (unsigned i = 0; i < DOCUMENT_OBJECTIVES; i++) {
        const json_t *low = json_object_get(result, document_bounds[i].bound);
        const json_t *high = json_object_get(result, document_bounds[i].value);
        bool fine = low == NULL || (json_is_integer(low) && json_integer_value(low) >= 0);
        if (fine && low != NULL && json_is_integer(high))
            fine = json_integer_value(low) <= json_integer_value(high);
        bool other = i != TN_OBJECTIVE_BYTES && i != objective && objective < DOCUMENT_OBJECTIVES;
        if (fine && other && low != NULL && json_integer_value(low) != 0)
            TN_FAIL(error, TN_E_CONFLICT,
                    "the plan contradicts itself: result.%s is of another objective",
                    document_bounds[i].bound);
        if (!fine)
            TN_FAIL(error, TN_E_CONFLICT,
                    "the plan contradicts itself: result.%s is no whole number from 0 to result.%s",
                    document_bounds[i].bound, document_bounds[i].value);
    }
    return TN_OK;
}

/* Checks that an optimal plan states the value that it minimises and an equal bound. A plan without
 * a reuse cost claims the cost 0, which the verifier has checked. */
static tn_status document_optimal(const json_t *result, unsigned objective, tn_error *error) {
    const json_t *low = json_object_get(result, document_bounds[objective].bound);
    const json_t *high = json_object_get(result, document_bounds[objective].value);
    if (objective == TN_OBJECTIVE_PAIRS && low == NULL && high == NULL) return TN_OK;
    if (json_is_integer(low) && json_is_integer(high) && json_equal(low, high)) return TN_OK;
    TN_FAIL(error, TN_E_CONFLICT,
            "the plan contradicts itself: it is called optimal, but its %s is not its %s",
            document_bounds[objective].bound, document_bounds[objective].value);
}

/* Checks that a plan with one pool states one lower bound. */
static tn_status document_one_bound(const cli_plan_file *file, tn_error *error) {
    const json_t *pools = json_object_get(file->document, "pools");
    const json_t *bound = json_object_get(json_array_get(pools, 0), "lower_bound");
    if (json_array_size(pools) != 1 || !file->has_lower_bound || !json_is_integer(bound) ||
        (uint64_t)json_integer_value(bound) == file->lower_bound)
        return TN_OK;
    TN_FAIL(error, TN_E_CONFLICT,
            "the plan contradicts itself: result.lower_bound and pools[0].lower_bound differ");
}

/* Checks the status that the plan states: a known one, and "optimal" only if what the plan
 * minimises is equal to its bound. Plans for several pools can be optimal with any peak. */
static tn_status document_status(const cli_verify *arguments) {
    const cli_plan_file *file = &arguments->file;
    const json_t *result = json_object_get(file->document, "result");
    tn_error *error = arguments->error;
    const char *word;
    unsigned objective;
    TN_TRY(document_word(result, "status", &word, error));
    bool known = word == NULL;
    for (tn_verdict verdict = 0; !known && verdict <= TN_VERDICT_STOPPED; verdict++)
        known = strcmp(word, tn_verdict_name(verdict)) == 0;
    if (!known)
        TN_FAIL(error, TN_E_CONFLICT, "the plan states result.status: '%.80s' is none", word);
    TN_TRY(document_objective(file, result, &objective, error));
    TN_TRY(document_bounded(result, objective, error));
    TN_TRY(document_one_bound(file, error));
    bool pools =
        objective == TN_OBJECTIVE_BYTES && tn_problem_bank_count(arguments->input.problem) > 1;
    if (word == NULL || strcmp(word, tn_verdict_name(TN_VERDICT_OPTIMAL)) != 0 || pools ||
        objective == DOCUMENT_OBJECTIVES)
        return TN_OK;
    return document_optimal(result, objective, error);
}

/* Whether a member records how the plan was found, or where its parts came from. */
static bool document_is_record(const char *path) {
    static const char *const records[] = {"format",
                                          "version",
                                          "input",
                                          "library",
                                          "command",
                                          "options",
                                          "kernels",
                                          "fit",
                                          "result.status",
                                          "result.planner",
                                          "result.objective",
                                          "result.seed",
                                          "result.work",
                                          "result.reuse_cost_bound",
                                          "result.waits_bound",
                                          "result.time_bound"};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        if (strcmp(path, records[i]) == 0) return true;
    return false;
}

/* Whether a member is about tensors, but the input is a problem without tensors. */
static bool document_is_unknown(const document_match *match) {
    const char *last = strrchr(match->path, '.');
    if (!match->lacks_tensors || last == NULL) return false;
    return strcmp(last, ".kind") == 0 || strcmp(match->path, "result.naive") == 0;
}

/* The bound of a pool can be one that only a long search proves, but not above the pool's peak. */
static bool document_is_bound(const char *path, const json_t *stated, const json_t *pool) {
    const char *last = strrchr(path, '.');
    return strncmp(path, "pools[", 6) == 0 && last != NULL && strcmp(last, ".lower_bound") == 0 &&
           json_is_integer(stated) &&
           json_integer_value(stated) <= json_integer_value(json_object_get(pool, "peak"));
}

/* Writes a value as a person reads it. */
static const char *document_words(const json_t *value, char text[DOCUMENT_TEXT]) {
    char number[TN__WORDS_MAX];
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(text, DOCUMENT_TEXT, "'%.80s'", json_string_value(value));
        break;
    case JSON_INTEGER:
        if (json_integer_value(value) < 0)
            snprintf(text, DOCUMENT_TEXT, "%lld", (long long)json_integer_value(value));
        else
            snprintf(text, DOCUMENT_TEXT, "%s",
                     tn__grouped((uint64_t)json_integer_value(value), number));
        break;
    case JSON_REAL:
        snprintf(text, DOCUMENT_TEXT, "%g", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(text, DOCUMENT_TEXT, "%s", json_is_true(value) ? "true" : "false");
        break;
    case JSON_ARRAY:
        snprintf(text, DOCUMENT_TEXT, "a list of %zu", json_array_size(value));
        break;
    case JSON_OBJECT:
        snprintf(text, DOCUMENT_TEXT, "an object");
        break;
    default:
        snprintf(text, DOCUMENT_TEXT, "null");
    }
    return text;
}

static tn_status document_differs(const document_match *match, const json_t *stated,
                                  const json_t *given) {
    char said[DOCUMENT_TEXT], is[DOCUMENT_TEXT];
    TN_FAIL(match->error, TN_E_CONFLICT,
            "the plan states %.120s: %.100s, but its input and its offsets give %.100s",
            match->path, document_words(stated, said), document_words(given, is));
}

static tn_status document_compare(document_match *match, const json_t *stated, const json_t *given);

static tn_status document_members(document_match *match, const json_t *stated,
                                  const json_t *given) {
    size_t used = strlen(match->path);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)given, name, value) {
        const json_t *said = json_object_get(stated, name);
        snprintf(match->path + used, DOCUMENT_PATH - used, "%s%.60s", used > 0 ? "." : "", name);
        if (said != NULL && !document_is_record(match->path) && !document_is_unknown(match) &&
            !document_is_bound(match->path, said, given))
            TN_TRY(document_compare(match, said, value));
        match->path[used] = '\0';
    }
    return TN_OK;
}

static tn_status document_items(document_match *match, const json_t *stated, const json_t *given) {
    size_t used = strlen(match->path);
    if (json_array_size(stated) != json_array_size(given))
        return document_differs(match, stated, given);
    for (size_t i = 0; i < json_array_size(given); i++) {
        snprintf(match->path + used, DOCUMENT_PATH - used, "[%zu]", i);
        TN_TRY(document_compare(match, json_array_get(stated, i), json_array_get(given, i)));
        match->path[used] = '\0';
    }
    return TN_OK;
}

/* Compares a value of the plan with the value that is computed. Their depth is that of the plans
 * that Tenure writes. */
static tn_status document_compare(document_match *match, const json_t *stated,
                                  const json_t *given) {
    if (json_is_object(given) && json_is_object(stated))
        return document_members(match, stated, given);
    if (json_is_array(given) && json_is_array(stated)) return document_items(match, stated, given);
    return json_equal(stated, given) ? TN_OK : document_differs(match, stated, given);
}

tn_status cli_verify_document(const cli_verify *arguments, const tn_layout *layout) {
    const cli_plan_file *file = &arguments->file;
    const cli_input *input = &arguments->input;
    document_match match = {.error = arguments->error};
    match.lacks_tensors =
        input->occupancy == NULL && json_object_get(file->document, "tensors") != NULL;
    if (file->document == NULL || !file->is_own) return TN_OK;
    TN_TRY(document_status(arguments));
    /* the bound can be one that only a long search proves; the rest must agree with it */
    tn_layout stated = *layout;
    if (file->has_lower_bound) stated.lower_bound = file->lower_bound;
    tn_report report = {.struct_size = sizeof report,
                        .input = arguments->input.path,
                        .problem = input->problem,
                        .layout = &stated,
                        .occupancy = input->occupancy,
                        .stages = input->stages,
                        .streams = input->streams.count};
    char *text;
    size_t size;
    json_error_t why;
    TN_TRY(tn_report_render(&report, "json", &text, &size, arguments->error));
    tn_status status;
    json_t *given = tn__json_parse(text, size, &why, &status);
    tn_report_release(text);
    if (given == NULL) TN_FAIL(arguments->error, status, "the plan, written again: %s", why.text);
    status = document_compare(&match, file->document, given);
    json_decref(given);
    return status;
}
#endif

/* claims.c - claims and hints of tn_fit_graph as JSON, and as options to give. */
#include "cli/claims.h"
#include "cli/holders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const cli_facts claims_one_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "techniques", "the set of techniques that the claim is about", NULL),
        CLI_FACT(WORD, "verdict", NULL,
                 "fits, infeasible (proved), not_found, stopped or not_tried"),
        CLI_FACT(BYTES, "bytes", NULL, "bytes of the smallest program found"),
        CLI_FACT(COUNT, "time", NULL, "its predicted time, in picoseconds"),
        CLI_FACT(BYTES, "bytes_bound", NULL, "no program of these techniques takes less"),
        CLI_FACT(WORD, "why", NULL, "why the set was not tried, or not to the end"),
        CLI_FACTS_END}};
static const cli_facts claims_hint_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "with", "techniques to allow in addition", NULL),
        CLI_FACT(YES, "within_budget", NULL, "whether that meets the budget"),
        CLI_FACT(BYTES, "bytes", NULL, "bytes that the program then takes"),
        CLI_FACT(SHARE, "more_time", NULL, "its additional time as a fraction; absent: unknown"),
        CLI_FACTS_END}};
const cli_facts cli_claims_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(LIST, "scope", "the techniques that were allowed", NULL),
        CLI_FACT(YES, "ruled", NULL,
                 "whether the claims are only about programs that obey the rules (--keep, ...)"),
        CLI_FACT_OF(LIST, "claims", "proofs and programs found, by set of techniques",
                    &claims_one_facts),
        CLI_FACT_OF(LIST, "not_tried", "techniques that were not allowed", NULL),
        CLI_FACT_OF(LIST, "would_fit", "programs found with further techniques",
                    &claims_hint_facts),
        CLI_FACTS_END}};
const cli_facts cli_refused_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACT(YES, "fits", NULL, "false: the budget is not met"),
        CLI_FACT(YES, "proved", NULL, "whether it is proved for the scope"),
        CLI_FACT(BYTES, "budget", NULL, "the budget"),
        CLI_FACT(BYTES, "least_bytes", NULL, "bytes of the smallest program found"),
        CLI_FACTS_ALSO(&cli_claims_facts), CLI_FACTS_END}};

static void claims_tell_set(cli_answer *answer, const char *key, uint32_t techniques) {
    char words[TN_TECHNIQUES_TEXT], *at, *rest = words;
    cli_answer_open(answer, key);
    (void)tn_techniques_text(techniques, words);
    while ((at = strsep(&rest, ",")) != NULL)
        if (*at != '\0') cli_tell_element(answer, at);
    cli_answer_close(answer);
}

static void claims_tell_one(cli_answer *answer, const tn_claim *claim) {
    cli_answer_open(answer, NULL);
    claims_tell_set(answer, "techniques", claim->techniques);
    cli_tell_word(answer, "verdict", tn_claim_kind_name(claim->kind));
    if (claim->bytes > 0) cli_tell(answer, "bytes", claim->bytes);
    if (claim->time > 0) cli_tell(answer, "time", claim->time);
    if (claim->bytes_bound > 0) cli_tell(answer, "bytes_bound", claim->bytes_bound);
    if (claim->why[0] != '\0') cli_tell_word(answer, "why", claim->why);
    cli_answer_close(answer);
}

static void claims_tell_hint(cli_answer *answer, const tn_hint *hint) {
    cli_answer_open(answer, NULL);
    claims_tell_set(answer, "with", hint->techniques);
    cli_tell(answer, "within_budget", hint->fits);
    cli_tell(answer, "bytes", hint->bytes);
    if (hint->more_time >= 0) cli_tell_real(answer, "more_time", hint->more_time);
    cli_answer_close(answer);
}

void cli_claims_tell(cli_answer *answer, const tn_fit_answer *found) {
    if (found->own == NULL) return;
    claims_tell_set(answer, "scope", found->allowed);
    cli_tell(answer, "ruled", found->ruled);
    cli_answer_open(answer, "claims");
    for (uint32_t i = 0; i < found->claim_count; i++) claims_tell_one(answer, &found->claims[i]);
    cli_answer_close(answer);
    claims_tell_set(answer, "not_tried", tn_fit_answer_not_tried(found));
    cli_answer_open(answer, "would_fit");
    for (uint32_t i = 0; i < found->hint_count; i++) claims_tell_hint(answer, &found->hints[i]);
    cli_answer_close(answer);
}

/* The members that describe claims in the JSON object of a failed command. */
static void claims_tell_refused(cli_answer *answer, const tn_fit_answer *found, const char *input,
                                bool proved) {
    cli_tell_word(answer, "input", cli_shown_path(input));
    cli_tell(answer, "fits", false);
    cli_tell(answer, "proved", proved);
    cli_tell(answer, "budget", found->budget);
    if (found->least != NULL) cli_tell(answer, "least_bytes", tn_setup_need(found->least).total);
    cli_claims_tell(answer, found);
}

void cli_claims_put_hints(const tn_fit_answer *answer, const char *command) {
    char words[TN_TECHNIQUES_TEXT];
    for (uint32_t i = 0; i < answer->hint_count; i++) {
        const tn_hint *hint = &answer->hints[i];
        cli_prefix(CLI_NOTE);
        fprintf(stderr, "%s: %s--budget %" PRIu64 " --allow %s\n",
                hint->fits ? "would fit" : "fits with a larger budget", command,
                (hint->fits ? answer->budget : hint->bytes) + answer->apart,
                tn_techniques_text(answer->allowed | hint->techniques, words));
    }
}

int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error) {
    cli_answer members;
    bool refused = error->status == TN_E_INFEASIBLE || error->status == TN_E_EXHAUSTED;
    if (!refused || answer->own == NULL) return cli_fail(error);
    cli_members_begin(&members, &cli_refused_facts);
    claims_tell_refused(&members, answer, input, error->status == TN_E_INFEASIBLE);
    int code = cli_fail_with(error, cli_members_text(&members));
    cli_answer_release(&members);
    return code;
}

void cli_claims_holders(const tn_fit_answer *answer) {
    if (answer->setup != NULL || answer->least == NULL) return;
    const tn_setup_needs needs = tn_setup_need(answer->least);
    cli_holders_print_least(tn_setup_occupancy(answer->least), needs.total - needs.arena,
                            answer->least == answer->whole ? "the plan without changes"
                                                           : "the smallest program found");
}

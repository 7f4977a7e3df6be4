/* fuzz_solution.c - any bytes as a solution of dsa-solver for a fixed problem: read, verified,
 * written and read again. */

#include <tenure/plan.h>

#include "fuzz_problem.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define BUFFER(id, pool, size, lower, upper)                                                       \
    "{\"id\": " #id ", \"name\": \"b" #id "\", \"size\": " #size ", \"alignment\": 2, "            \
    "\"allowed_pools\": [" #pool "], \"live_intervals\": [{\"lower\": " #lower                     \
    ", \"upper\": " #upper "}]}"
static const char problem_text[] =
    "{\"schema_version\": 1, \"profile\": \"pypto_research_v1\", \"instance\": \"fuzz\", "
    "\"problem\": {\"pools\": [{\"id\": 1, \"name\": \"p\", \"capacity\": 32, "
    "\"reserved_ranges\": [{\"begin\": 0, \"end\": 2}]}, {\"id\": 5, \"name\": \"q\", "
    "\"capacity\": null, \"reserved_ranges\": []}], \"buffers\": [" BUFFER(
        3, 1, 8, 0,
        4) ", " BUFFER(9, 1, 8, 0,
                       4) ", " BUFFER(4, 1, 4, 6,
                                      8) ", " BUFFER(12, 5, 6, -2,
                                                     3) ", " BUFFER(0, 1, 2, 9,
                                                                    10) "], \"constraints\": "
                                                                        "{\"colocations\": "
                                                                        "[{\"first\": 9, "
                                                                        "\"second\": 4}], "
                                                                        "\"separations\": "
                                                                        "[{\"first\": 3, "
                                                                        "\"second\": 0}], "
                                                                        "\"temporal_exclusions\": "
                                                                        "[{\"first\": 3, "
                                                                        "\"second\": 9}], "
                                                                        "\"pinned_allocations\": "
                                                                        "[{\"buffer\": 0, "
                                                                        "\"pool\": 1, \"offset\": "
                                                                        "24, "
                                                                        "\"exclusive_for_all_"
                                                                        "time\": true}]}, "
                                                                        "\"cost_model\": "
                                                                        "{\"reuse_penalties\": "
                                                                        "[{\"first\": 3, "
                                                                        "\"second\": 9, \"cost\": "
                                                                        "2, \"reason\": "
                                                                        "\"generic\"}]}}}";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static tn_problem *problem; /* read once */
    tn_layout layout, again;
    tn_error error = {0};
    if (problem == NULL)
        fuzz_must(tn_problem_load_memory("p.json", problem_text, sizeof problem_text - 1, NULL,
                                         &problem, NULL, &error) == TN_OK);
    tn_status status = tn_layout_load_memory(problem, "input.json", bytes, size, &layout, &error);
    if (status != TN_OK) {
        fuzz_must(error.message[0] != '\0' && error.where[0] != '\0');
        return 0;
    }
    fuzz_accept();
    status = tn_layout_verify(problem, &layout, NULL, &error);
    fuzz_must(status == TN_OK || status == TN_E_CONFLICT);
    tn__text text;
    tn__text_init(&text, NULL);
    tn__dsa_render(problem, &layout, &text);
    fuzz_must(!text.failed && tn_layout_load_memory(problem, "again.json", text.data, text.size,
                                                    &again, &error) == TN_OK);
    for (uint32_t i = 0; i < layout.body_count; i++)
        fuzz_must(layout.offset[i] == again.offset[i] && layout.bank[i] == again.bank[i]);
    fuzz_must(tn_layout_verify(problem, &again, NULL, &error) == status);
    tn__text_release(&text);
    tn_layout_release(&again);
    tn_layout_release(&layout);
    return 0;
}

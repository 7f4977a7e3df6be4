/* place.cpp - the same from C++: tenure_plan.c is compiled as C, its header is included.
 *
 *     cc -c -O2 -DNDEBUG tenure_plan.c && c++ place.cpp tenure_plan.o -pthread && ./a.out
 */
#include "tenure_plan.h"

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

void check(tn_status status, const tn_error &error) {
    if (status != TN_OK) throw std::runtime_error(error.message);
}

class Planner {
  public:
    Planner() : problem(make(), tn_problem_destroy) {}
    /* A buffer that is live in steps [first, last). */
    void add(uint64_t size, int64_t first, int64_t last) {
        tn_body body{};
        body.size = size;
        body.first = first;
        body.last = last;
        tn_error error;
        check(tn_problem_add(problem.get(), &body, nullptr, &error), error);
    }
    /* Offsets in the order of adding, and behind them the size of the arena. */
    std::vector<uint64_t> plan(uint64_t capacity) const {
        tn_plan_options options{};
        options.struct_size = sizeof options;
        options.capacity = capacity;
        tn_layout layout;
        tn_error error;
        check(tn_plan(problem.get(), &options, &layout, &error), error);
        std::vector<uint64_t> offsets(layout.offset, layout.offset + layout.body_count);
        offsets.push_back(layout.peak);
        tn_layout_release(&layout);
        return offsets;
    }

  private:
    static tn_problem *make() {
        tn_problem *made = nullptr;
        tn_error error;
        check(tn_problem_create(nullptr, &made, &error), error);
        return made;
    }
    std::unique_ptr<tn_problem, void (*)(tn_problem *)> problem;
};

} // namespace

int main() {
    Planner planner;
    planner.add(600, 0, 3);
    planner.add(500, 1, 4);
    planner.add(700, 3, 6);
    std::vector<uint64_t> offsets = planner.plan(1 << 20);
    for (uint64_t offset : offsets) std::printf("%llu\n", (unsigned long long)offset);
    try {
        planner.plan(1024); // 500 and 700 live at once
    } catch (const std::runtime_error &refused) {
        std::printf("%s\n", refused.what());
        return offsets.back() == 1200 ? 0 : 4;
    }
    return 4;
}

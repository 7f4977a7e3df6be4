/* mlir.cpp - offsets for the arena of MLIR's static memory planning. */
#include "standins.h"
#include "tenure_plan.h"

/* In place of trivialMemoryPlanner. The arena has the largest alignment of all allocations, so
 * offsets that are multiples of their own alignment are enough. */
static SmallVector<int64_t> tenureMemoryPlanner(int64_t, ArrayRef<Alloc> allocs) {
    SmallVector<int64_t> offsets;
    tn_problem *problem = nullptr;
    tn_layout layout{};
    tn_error error{};
    tn_plan_options options{};
    options.struct_size = sizeof options;
    options.work_limit = 1000000; /* not a time limit: the same function gets the same offsets */
    tn_status status = tn_problem_create(nullptr, &problem, &error);
    for (const Alloc &alloc : allocs) {
        tn_body body{};
        body.size = uint64_t(alloc.sizeInBytes);
        body.alignment = uint64_t(alloc.alignment);
        body.first = alloc.timeStart;
        body.last = alloc.timeEnd; /* dead from its dealloc on */
        if (status == TN_OK) status = tn_problem_add(problem, &body, nullptr, &error);
    }
    if (status == TN_OK) status = tn_plan(problem, &options, &layout, &error);
    if (status != TN_OK) report_fatal_error(error.message);
    offsets.assign(layout.offset, layout.offset + layout.body_count);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return offsets;
}

int main() {
    const SmallVector<Alloc> allocs = {
        {4096, 64, 0, 4}, {1024, 64, 2, 6}, {4096, 64, 4, 8}, {512, 16, 6, 8}};
    const SmallVector<int64_t> offsets = tenureMemoryPlanner(64, allocs);
    int64_t arena = 0, trivial = 0;
    for (size_t i = 0; i < allocs.size(); i++) {
        if (offsets[i] % allocs[i].alignment != 0) return 1;
        for (size_t k = 0; k < i; k++) {
            bool meets = allocs[i].timeStart < allocs[k].timeEnd &&
                         allocs[k].timeStart < allocs[i].timeEnd;
            if (meets && offsets[i] < offsets[k] + allocs[k].sizeInBytes &&
                offsets[k] < offsets[i] + allocs[i].sizeInBytes)
                return 1;
        }
        int64_t end = offsets[i] + allocs[i].sizeInBytes;
        arena = end > arena ? end : arena;
        trivial += allocs[i].sizeInBytes;
    }
    std::printf("MLIR: %d bytes instead of %d\n", int(arena), int(trivial));
    return arena == 5120 ? 0 : 1;
}

/* iree.cpp - offsets for the slices of IREE's pass iree-stream-layout-slices. */
#include "standins.h"
#include "tenure_plan.h"

static int64_t alignTo(int64_t value, int64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

/* In place of packStaticSlicesGreedily. Returns the end of the slices, which start at baseOffset. */
static int64_t packStaticSlicesByTenure(int64_t baseOffset, MutableArrayRef<Slice> slices,
                                        const ResourceConfigAttr &resourceConfig) {
    const int64_t rangeAlignment = resourceConfig.getMinBufferRangeAlignment();
    tn_problem *problem = nullptr;
    tn_layout layout{};
    tn_error error{};
    tn_plan_options options{};
    options.struct_size = sizeof options;
    options.work_limit = 1000000;
    tn_status status = tn_problem_create(nullptr, &problem, &error);
    if (status == TN_OK)
        status = tn_problem_set_alignment(
            problem, uint64_t(resourceConfig.getMinBufferOffsetAlignment()), &error);
    for (const Slice &slice : slices) {
        tn_body body{};
        body.size = uint64_t(alignTo(slice.staticSize, rangeAlignment));
        body.first = slice.lifetimeStart;
        body.last = slice.lifetimeEnd + 1; /* both ends of IREE's lifetimes are used */
        if (status == TN_OK) status = tn_problem_add(problem, &body, nullptr, &error);
    }
    if (status == TN_OK) status = tn_plan(problem, &options, &layout, &error);
    if (status != TN_OK) report_fatal_error(error.message);
    for (size_t i = 0; i < slices.size(); i++)
        slices[i].packedOffset = baseOffset + int64_t(layout.offset[i]);
    const int64_t end = baseOffset + alignTo(int64_t(layout.peak), rangeAlignment);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return end;
}

int main() {
    SmallVector<Slice> slices = {
        {0, 2, 1000, -1}, {1, 3, 300, -1}, {3, 5, 1000, -1}, {4, 5, 200, -1}};
    const ResourceConfigAttr config = {256, 16};
    const int64_t end = packStaticSlicesByTenure(512, slices, config);
    for (size_t i = 0; i < slices.size(); i++) {
        if (slices[i].packedOffset % 256 != 0 || slices[i].packedOffset + slices[i].staticSize > end)
            return 1;
        for (size_t k = 0; k < i; k++) {
            bool meets = slices[i].lifetimeStart <= slices[k].lifetimeEnd &&
                         slices[k].lifetimeStart <= slices[i].lifetimeEnd;
            if (meets && slices[i].packedOffset < slices[k].packedOffset + slices[k].staticSize &&
                slices[k].packedOffset < slices[i].packedOffset + slices[i].staticSize)
                return 1;
        }
    }
    std::printf("IREE: %d bytes\n", int(end - 512));
    return 0;
}

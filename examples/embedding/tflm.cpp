/* tflm.cpp - a memory planner for TensorFlow Lite Micro on a computer with an operating system, such
 * as a simulator. */
#include "standins.h"
#include "tenure_plan.h"

class TenureMemoryPlanner : public MicroMemoryPlanner {
  public:
    TenureMemoryPlanner() { check(tn_problem_create(nullptr, &problem, &error)); }
    ~TenureMemoryPlanner() override {
        if (planned) tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
    TfLiteStatus AddBuffer(int size, int first_time_used, int last_time_used) override {
        return add(size, first_time_used, last_time_used, 0, 0);
    }
    TfLiteStatus AddBuffer(int size, int first_time_used, int last_time_used,
                           int offline_offset) override {
        if (offline_offset < 0) return AddBuffer(size, first_time_used, last_time_used);
        return add(size, first_time_used, last_time_used, TN_BODY_PINNED, offline_offset);
    }
    size_t GetMaximumMemorySize() override { return plan() ? size_t(layout.peak) : 0; }
    int GetBufferCount() override { return int(tn_problem_count(problem)); }
    TfLiteStatus GetOffsetForBuffer(int buffer_index, int *offset) override {
        if (buffer_index < 0 || buffer_index >= GetBufferCount() || !plan()) return kTfLiteError;
        *offset = int(layout.offset[buffer_index]);
        return kTfLiteOk;
    }
    bool preserves_all_tensors() const override { return false; }

  private:
    TfLiteStatus add(int size, int first, int last, uint32_t flags, int offset) {
        tn_body body{};
        body.size = uint64_t(size);
        body.first = first;
        body.last = last + 1; /* TFLM's last use is included */
        body.alignment = 16;  /* MicroArenaBufferAlignment() */
        body.flags = flags;
        body.offset = uint64_t(offset);
        return check(tn_problem_add(problem, &body, nullptr, &error)) ? kTfLiteOk : kTfLiteError;
    }
    bool plan() {
        if (!planned) planned = check(tn_plan(problem, nullptr, &layout, &error));
        return planned;
    }
    bool check(tn_status status) {
        if (status != TN_OK) std::fprintf(stderr, "%s\n", error.message);
        return status == TN_OK;
    }
    tn_problem *problem = nullptr;
    tn_layout layout{};
    tn_error error{};
    bool planned = false;
};

int main() {
    TenureMemoryPlanner planner;
    const int rows[][4] = {{1024, 0, 1, -1}, {512, 1, 2, -1}, {1024, 2, 3, -1}, {256, 0, 3, 2048}};
    for (const int *row : rows)
        if (planner.AddBuffer(row[0], row[1], row[2], row[3]) != kTfLiteOk) return 1;
    for (int i = 0; i < planner.GetBufferCount(); i++) {
        int offset = 0;
        if (planner.GetOffsetForBuffer(i, &offset) != kTfLiteOk || offset % 16 != 0) return 1;
        if (i == 3 && offset != 2048) return 1;
    }
    int none = 0;
    if (planner.GetOffsetForBuffer(4, &none) != kTfLiteError) return 1;
    std::printf("TFLM: %d bytes\n", int(planner.GetMaximumMemorySize()));
    return planner.GetMaximumMemorySize() == 2048 + 256 ? 0 : 1;
}

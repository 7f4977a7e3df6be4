/* standins.h - as much of MLIR, IREE and TensorFlow Lite Micro as the examples of this folder use,
 * so that they compile without these projects. In your compiler, include its own headers instead.
 */
#ifndef TENURE_STANDINS_H
#define TENURE_STANDINS_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

/* llvm/ADT and llvm/Support */
template <typename T> using SmallVector = std::vector<T>;
template <typename T> using ArrayRef = const std::vector<T> &;
template <typename T> using MutableArrayRef = std::vector<T> &;
[[noreturn]] inline void report_fatal_error(const char *reason) {
    std::fprintf(stderr, "%s\n", reason);
    std::abort();
}

/* mlir/lib/Dialect/Bufferization/Transforms/StaticMemoryPlannerAnalysis.cpp */
struct Alloc {
    int64_t sizeInBytes = 0;
    int64_t alignment = 1;
    int64_t timeStart = 0;
    int64_t timeEnd = 0;
};

/* IREE::Stream::ResourcePackOp::Slice; a value is only its number here. */
struct Slice {
    int64_t lifetimeStart, lifetimeEnd;
    int64_t staticSize;   /* of dynamicSize, which is a constant */
    int64_t packedOffset; /* in IREE an SSA value, whose uses are replaced */
};
struct ResourceConfigAttr {
    int64_t offset_alignment, range_alignment;
    int64_t getMinBufferOffsetAlignment() const { return offset_alignment; }
    int64_t getMinBufferRangeAlignment() const { return range_alignment; }
};

/* tensorflow/lite/micro/memory_planner/micro_memory_planner.h */
enum TfLiteStatus { kTfLiteOk, kTfLiteError };
class MicroMemoryPlanner {
  public:
    virtual ~MicroMemoryPlanner() {}
    virtual TfLiteStatus AddBuffer(int size, int first_time_used, int last_time_used) = 0;
    virtual TfLiteStatus AddBuffer(int size, int first_time_used, int last_time_used,
                                   int offline_offset) = 0;
    virtual size_t GetMaximumMemorySize() = 0;
    virtual int GetBufferCount() = 0;
    virtual TfLiteStatus GetOffsetForBuffer(int buffer_index, int *offset) = 0;
    virtual bool preserves_all_tensors() const = 0;
};

#endif

/* standin.h - what tests can ask of the stand-in of the CUDA runtime, beside its own functions.
 *
 * Streams are threads, device memory is memory of the host at addresses that fault when they are
 * used as pointers. What a program must not do (copy to freed memory, in the wrong direction, use
 * what was destroyed, free what is still being used) ends it with a line that says so. From the
 * environment: STANDIN_DEVICES (1), STANDIN_MEMORY (bytes of each device: 256 MiB),
 * STANDIN_PAGES (1; 0: no memory apart from addresses), STANDIN_GRANULE (2 MiB), STANDIN_FILL (1;
 * 0: mapped memory is 0), STANDIN_VERSION (12040), STANDIN_FAIL ("cudaMalloc:3:2": the third call
 * gives status 2).
 */
#ifndef TENURE_TESTS_STANDIN_H
#define TENURE_TESTS_STANDIN_H

#include <stddef.h>
#include <stdint.h>

enum { STANDIN_LOST = 719 }; /* statuses from 700 on stick: the device is lost */

/* The nth call of the function from now on (1: the next) gives `status`. "copy": the nth copy or
 * fill that a stream does, which nobody hears of before a later call. status 0: forget it. */
void standin_fail(const char *function, unsigned nth, int status);
void standin_reset(void);                     /* the device is well again, and nothing fails */
uint64_t standin_calls(const char *function); /* how often it was called */
uint64_t standin_used(int device); /* bytes of cudaMalloc and cuMemCreate that are not freed */
uint64_t standin_ranges(void);     /* of addresses that are not freed */
uint64_t standin_live(void);       /* streams and events that are not destroyed */

/* The functions of the runtime that tests call themselves. */
int cudaSetDevice(int device);
int cudaGetDevice(int *device);
int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);
int cudaMemsetAsync(void *pointer, int byte, size_t size, void *stream);
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream);
int cudaStreamCreateWithFlags(void **stream, unsigned flags);
int cudaStreamDestroy(void *stream);
int cudaStreamSynchronize(void *stream);
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaEventCreateWithFlags(void **event, unsigned flags);
int cudaEventDestroy(void *event);
int cudaEventRecord(void *event, void *stream);
int cudaEventQuery(void *event);
int cudaEventSynchronize(void *event);
int cudaDeviceSynchronize(void);
int cudaLaunchHostFunc(void *stream, void (*work)(void *self), void *self);
int cudaMemGetInfo(size_t *available, size_t *total);
int cudaGetLastError(void);

#endif

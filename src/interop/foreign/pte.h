/* pte.h - the tables of ExecuTorch's .pte files, shared by the reader and the writer of plans.
 *
 * Source: ExecuTorch, schema/program.fbs and schema/extended_header.h.
 */
#ifndef TN_INTEROP_FOREIGN_PTE_H
#define TN_INTEROP_FOREIGN_PTE_H

#include "interop/foreign/foreign.h"
#include "io/import/tflite/flat.h"

enum { PTE_PROGRAM_VERSION, PTE_PROGRAM_PLANS };
enum {
    PTE_PLAN_NAME,
    PTE_PLAN_VALUES = 2,
    PTE_PLAN_INPUTS,
    PTE_PLAN_OUTPUTS,
    PTE_PLAN_CHAINS,
    PTE_PLAN_OPERATORS,
    PTE_PLAN_DELEGATES,
    PTE_PLAN_SIZES
};
enum { PTE_VALUE_TYPE, PTE_VALUE_VALUE };
enum { PTE_TENSOR = 5, PTE_TENSOR_LIST = 10, PTE_OPTIONAL_LIST = 11 };
enum {
    PTE_TENSOR_TYPE,
    PTE_TENSOR_STORAGE_OFFSET,
    PTE_TENSOR_SIZES,
    PTE_TENSOR_DATA = 5,
    PTE_TENSOR_PLACE,
    PTE_TENSOR_DYNAMISM = 8,
    PTE_TENSOR_EXTRA
};
enum { PTE_EXTRA_NAME = 1 };
enum { PTE_PLACE_MEMORY, PTE_PLACE_LOW, PTE_PLACE_HIGH };
enum { PTE_CHAIN_INPUTS, PTE_CHAIN_OUTPUTS, PTE_CHAIN_INSTRUCTIONS };
enum { PTE_INSTRUCTION_TYPE, PTE_INSTRUCTION_ARGUMENTS };
enum { PTE_KERNEL = 1, PTE_DELEGATE, PTE_MOVE, PTE_JUMP, PTE_FREE };
/* fields of the tables KernelCall and DelegateCall */
enum { PTE_CALL_OPERATOR, PTE_CALL_ARGUMENTS };

/* place of the extended header: "eh00", length, program size, start of segments */
#define PTE_HEADER_AT 8u
#define PTE_HEADER_MIN 32u

typedef struct pte_file {
    const char *name;
    /* bytes: the whole file; program: the FlatBuffer, all bytes or those before the segments */
    tn__span bytes, program;
    bool has_header;   /* true: the file has an extended header */
    uint64_t segments; /* offset of the segments; 0: there are no segments */
    tn__flat_table plan;
    tn__flat_vector values, sizes;
    const char *method;
    uint32_t methods;
    bool is_shared; /* whether several methods have a plan, so that they can share state */
    tn_error *error;
} pte_file;

/* How an instruction, or the start or end of the method, uses a value */
typedef enum pte_role {
    PTE_UNUSED,  /* nothing uses it */
    PTE_INPUT,   /* an input of the method */
    PTE_READ,    /* read */
    PTE_GIVEN,   /* read, or scratch memory of a kernel */
    PTE_EITHER,  /* read or written */
    PTE_WRITTEN, /* written */
    PTE_FILLED   /* written in part, in each round of a loop */
} pte_role;

/* What the instructions show about a value of the plan */
typedef struct pte_fact {
    uint32_t number; /* number of the value in the file */
    uint8_t type;    /* scalar type */
    uint8_t rank;    /* number of dimensions */
    uint8_t begins;  /* pte_role of the first use */
    bool is_static;  /* whether its shape is fixed */
    bool is_data;    /* whether an instruction reads it, so that it is not scratch memory */
    bool is_written; /* whether an instruction writes it, or may write it */
    bool is_state;   /* whether it keeps its bytes between the runs of the method */
} pte_fact;

/* Finds the values that are views of others or scratch memory, and sets the live ranges and marks
 * of the plan accordingly (pte_views.c). `facts` [values of the plan]. The live ranges must be
 * those of the uses. `is_complete`: the file has an instruction for each view. Cost: O(n log n) for
 * n values. */
tn_status tn__pte_views(tn_foreign *foreign, pte_fact *facts, bool is_complete, tn_error *error);

/* Opens and verifies a file, and finds a method; `method` NULL: the first one. */
tn_status tn__pte_open(pte_file *file, const char *name, tn__span bytes, const char *method,
                       tn_error *error);
/* Returns the tensor of a value, or an absent table. */
tn__flat_table tn__pte_tensor(const pte_file *file, uint32_t value);

#endif

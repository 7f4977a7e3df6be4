/* fold.h - arithmetic of folded contents: exact as the run time would compute it.
 *
 * Integers are kept as int64 and wrapped to their type after each operation (uint64 as the same
 * 64 bits); floating types are kept as double and rounded to their type. Rounding a double result
 * once is the correctly rounded result for + - * / and sqrt of float32 and narrower, as double has
 * more than twice their digits (S. Figueroa, When is double rounding innocuous?, SIGNUM 30(3),
 * 1995).
 */
#ifndef TN_GRAPH_FOLD_H
#define TN_GRAPH_FOLD_H

#include "graph/op.h"

bool tn__is_float(tn_dtype dtype);    /* float16, bfloat16, float32, float64: folded as double */
bool tn__is_integer(tn_dtype dtype);  /* integers and bool: folded as int64 */
bool tn__is_unsigned(tn_dtype dtype); /* bool, too */
int64_t tn__wrap(tn_dtype dtype, int64_t value);
double tn__round(tn_dtype dtype, double value);

/* Sets output 0 by applying a function to every element of input 0; NULL where there is none for
 * that class of types. */
tn_status tn__fold_unary(tn_infer *infer, double (*of_float)(double), int64_t (*of_int)(int64_t));

#endif

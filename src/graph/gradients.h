/* gradients.h - the gradient rules: gradient_<family>.c each. Operators' entries name them. */
#ifndef TN_GRAPH_GRADIENTS_H
#define TN_GRAPH_GRADIENTS_H

#include "graph/gradient.h"

#define TN__GRADIENT(name) tn_status tn__gradient_##name(tn_gradient *it)

/* gradient_plain.c */
TN__GRADIENT(add);
TN__GRADIENT(reshape); /* Reshape, Flatten, Squeeze, Unsqueeze, Identity */
TN__GRADIENT(relu);
/* gradient_matmul.c */
TN__GRADIENT(gemm);
TN__GRADIENT(matmul);
/* gradient_conv.c */
TN__GRADIENT(conv);
TN__GRADIENT(conv_transpose);
TN__GRADIENT(max_pool);
TN__GRADIENT(average_pool);
TN__GRADIENT(global_average_pool);
/* gradient_recurrent.c */
TN__GRADIENT(lstm);
TN__GRADIENT(gru);
TN__GRADIENT(rnn);
/* gradient_train.c: operators of domain "tenure" */
TN__GRADIENT(cross_entropy);
TN__GRADIENT(mean_squared);
TN__GRADIENT(batch_norm_train);
TN__GRADIENT(dropout_train);
TN__GRADIENT(batch_norm); /* as in inference */

#undef TN__GRADIENT

#endif

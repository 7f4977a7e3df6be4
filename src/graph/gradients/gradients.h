/* gradients.h - declares the gradient rules, which operators' entries name. Each family of rules is
 * in a file gradient_<family>.c. */
#ifndef TN_GRAPH_GRADIENTS_H
#define TN_GRAPH_GRADIENTS_H

#include "graph/gradients/gradient.h"

#define TN__GRADIENT(name) tn_status tn__gradient_##name(tn_gradient *it)

/* defined in gradient_elementwise.c */
TN__GRADIENT(add);
TN__GRADIENT(reshape); /* the gradient of Reshape, Flatten, Squeeze, Unsqueeze and Identity */
TN__GRADIENT(relu);
/* defined in gradient_products.c */
TN__GRADIENT(gemm);
TN__GRADIENT(matmul);
/* defined in gradient_conv.c */
TN__GRADIENT(conv);
TN__GRADIENT(conv_transpose);
TN__GRADIENT(max_pool);
TN__GRADIENT(max_pool_train); /* the gradient of MaxPoolTrain of domain "tenure" */
TN__GRADIENT(average_pool);
TN__GRADIENT(col2im);
TN__GRADIENT(global_average_pool);
TN__GRADIENT(global_lp_pool);
TN__GRADIENT(global_max_pool);
TN__GRADIENT(lp_pool);
TN__GRADIENT(max_unpool);
/* defined in gradient_recurrent.c */
TN__GRADIENT(lstm);
TN__GRADIENT(gru);
TN__GRADIENT(rnn);
TN__GRADIENT(linear_attention);
/* defined in gradient_train.c: gradients of losses, batch normalisation, dropout and
 * FakeQuantize */
/* the gradient of SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss */
TN__GRADIENT(class_loss);
TN__GRADIENT(cross_entropy);
TN__GRADIENT(mean_squared);
TN__GRADIENT(batch_norm_train);
TN__GRADIENT(dropout_train);
TN__GRADIENT(fake_quantize); /* the straight-through estimator: the gradient of FakeQuantize */
TN__GRADIENT(dropout);       /* the gradient of Dropout in inference mode */
TN__GRADIENT(batch_norm);    /* the gradient of BatchNormalization in inference mode */
/* defined in gradient_train.c: gradients of operators that are divided among ranks */
TN__GRADIENT(class_loss_parts); /* ClassLoss */
TN__GRADIENT(gather_part);
TN__GRADIENT(rank_copy);
TN__GRADIENT(rank_gather);
TN__GRADIENT(rank_scatter);
TN__GRADIENT(rank_sum);
/* defined in gradient_products.c */
TN__GRADIENT(einsum);
/* defined in gradient_elementwise.c: gradients of functions of one element */
#define X(Type, rule, reads, cost) TN__GRADIENT(rule);
#include "graph/gradients/unary_gradients.def"
#undef X
TN__GRADIENT(cast);
TN__GRADIENT(clip);
TN__GRADIENT(exp);
TN__GRADIENT(flat); /* for operators such as Round and Sign: the input gets no gradient */
TN__GRADIENT(log);
TN__GRADIENT(neg);
TN__GRADIENT(prelu);
/* defined in gradient_elementwise.c: gradients of arithmetic */
TN__GRADIENT(div);
TN__GRADIENT(max);
TN__GRADIENT(mean);
TN__GRADIENT(min);
TN__GRADIENT(mod);
TN__GRADIENT(mul);
TN__GRADIENT(pow);
TN__GRADIENT(sub);
TN__GRADIENT(where);
/* defined in gradient_reduce.c */
TN__GRADIENT(cum_prod);
TN__GRADIENT(cum_sum);
TN__GRADIENT(group_norm);
TN__GRADIENT(instance_norm);
TN__GRADIENT(layer_norm);
TN__GRADIENT(log_softmax);
TN__GRADIENT(local_norm); /* LRN */
TN__GRADIENT(lp_norm);
TN__GRADIENT(mean_variance);
TN__GRADIENT(reduce_extreme);
TN__GRADIENT(reduce_l1);
TN__GRADIENT(reduce_l2);
TN__GRADIENT(reduce_log_sum);
TN__GRADIENT(reduce_log_sum_exp);
TN__GRADIENT(reduce_mean);
TN__GRADIENT(reduce_prod);
TN__GRADIENT(reduce_sum);
TN__GRADIENT(reduce_sum_square);
TN__GRADIENT(rms_norm);
TN__GRADIENT(softmax);
/* defined in gradient_move.c */
TN__GRADIENT(affine_grid);
TN__GRADIENT(again); /* the gradient of ReverseSequence and Trilu */
TN__GRADIENT(center_crop_pad);
TN__GRADIENT(concat);
TN__GRADIENT(depth_to_space);
TN__GRADIENT(expand);
TN__GRADIENT(gather);
TN__GRADIENT(gather_elements);
TN__GRADIENT(gather_nd);
TN__GRADIENT(grid_sample);
TN__GRADIENT(pad);
TN__GRADIENT(resize); /* the gradient of Resize and Upsample */
TN__GRADIENT(scatter_elements);
TN__GRADIENT(scatter_nd);
TN__GRADIENT(slice);
TN__GRADIENT(space_to_depth);
TN__GRADIENT(split);
TN__GRADIENT(tile);
TN__GRADIENT(top_k);
TN__GRADIENT(transpose);

#undef TN__GRADIENT

/* graph/ops/training/train.c: sets the shapes of a loss and of the number of correct
 * predictions. */
tn_status tn__shape_loss(tn_infer *infer);

#endif

#!/usr/bin/env python3
"""A TreeLSTM over random trees, trained eagerly: with all memory, then within 70 % of it. The losses have the same bits.

Each sentence has a tree of its own, so there is no graph to plan. examples/eager_tree_lstm.c trains the same network on
the same trees in C, and prints the same losses.
"""
import numpy
import tenure.eager

WIDTH, WORDS, LEAVES, BATCH, STEPS = 16, 64, 16, 16, 10


def train(budget):
    run, random = tenure.eager.Interpreter(budget), 0x9e3779b97f4a7c16

    def draw(bound):  # uniform below `bound`; xorshift64*
        nonlocal random
        random ^= random >> 12
        random ^= random << 25 & 0xffffffffffffffff
        random ^= random >> 27
        return (random * 0x2545f4914f6cdd1d >> 32 & 0xffffffff) * bound >> 32

    def parameter(*shape, spread=0.0):
        drawn = numpy.float32([draw(1 << 20) for _ in range(numpy.prod(shape))]).reshape(shape)
        return run.put(numpy.float32(spread) * (drawn / numpy.float32(1 << 19) - numpy.float32(1)), "parameter")

    def cell(gates, kept):  # from its gates i, f, ..., o, u and the cells of its children
        i, *f, o, u = run.Split(gates, [WIDTH] * (3 + len(kept)), axis=1, outputs=3 + len(kept))
        c = sum((run.Sigmoid(forget) * old for forget, old in zip(f, kept)), run.Sigmoid(i) * run.Tanh(u))
        return run.Sigmoid(o) * run.Tanh(c), c

    def sentence():  # neighbours are joined in a random order
        drawn = [draw(WORDS) for _ in range(3 + draw(LEAVES - 2))]
        nodes = [cell(run.Gather(words, numpy.array([word])) @ leaf + leaf_bias, []) for word in drawn]
        while len(nodes) > 1:
            at = draw(len(nodes) - 1)
            (left, c), (right, d) = nodes[at:at + 2]
            nodes[at:at + 2] = [cell(run.Concat(left, right, axis=1) @ inner + inner_bias, [c, d])]
        return nodes[0][0], sum(1 if word % 2 == 0 else -1 for word in drawn) > 0

    def loss():
        roots, labels = zip(*(sentence() for _ in range(BATCH)))
        scores = run.Concat(*roots, axis=0) @ head + head_bias
        return run.tenure.CrossEntropy(scores, numpy.array(labels, "int64"), axis=1)

    words, leaf = parameter(WORDS, WIDTH, spread=0.5), parameter(WIDTH, 3 * WIDTH, spread=(3 / WIDTH) ** 0.5)
    leaf_bias, inner = parameter(3 * WIDTH), parameter(2 * WIDTH, 5 * WIDTH, spread=(1.5 / WIDTH) ** 0.5)
    inner_bias, head, head_bias = parameter(5 * WIDTH), parameter(WIDTH, 2, spread=(3 / WIDTH) ** 0.5), parameter(2)
    optimizer = run.optimizer("sgd", [words, leaf, leaf_bias, inner, inner_bias, head, head_bias])
    losses = [optimizer.minimize(loss(), 0.01) for _ in range(STEPS)]
    print("%d bytes: at most %d, %d operators again" % (run.counts.budget, run.counts.peak_bytes, run.counts.remade_ops))
    return run.counts.peak_bytes, losses


peak, plain = train("64MiB")
print("losses" + " %.9g" * STEPS % tuple(plain))
print("the same losses" if train(int(0.7 * peak))[1] == plain else "other losses")

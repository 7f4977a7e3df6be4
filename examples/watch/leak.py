"""A training loop in outline, with a mistake: it keeps a result of every step. See docs/watch.md.

    TENURE_WATCH=1 LD_PRELOAD=libtenure_preload.so python3 examples/watch/leak.py & tenure watch $! --wait 10s
"""
import time

kept = []
weights = bytearray(8 << 20)
for step in range(60):
    activations = [bytearray((1 + layer % 5) << 18) for layer in range(24)]
    kept.append(bytearray(100000))  # the mistake
    del activations
    time.sleep(0.03)

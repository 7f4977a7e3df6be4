"""Publishes a table of holders with lines, modules and categories, as tenure.torch.watch does. See docs/watch.md.

    python3 examples/watch/labels.py & tenure watch $! --wait 10s --once --by module
"""
import time

import tenure

with tenure.Watch("training") as watch:
    for layer in range(3):
        watch.hold(("weight", layer), 4 << 20, line="model.py:12", module="layers.%d" % layer, category="parameter")
    for step in range(40):
        for layer in range(3):
            watch.hold(("output", layer), (2 + layer) << 20, line="model.py:31", module="layers.%d" % layer, category="activation")
        watch.hold(("loss", step), 4096, line="train.py:20", category="activation")  # the mistake: every loss is kept
        for layer in range(3):
            watch.release(("output", layer))
        watch.step()
        time.sleep(0.05)

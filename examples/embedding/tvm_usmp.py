"""tvm_usmp.py - an algorithm for TVM's unified static memory planner (USMP).

    with tvm.transform.PassContext(config={"tir.usmp.enable": True, "tir.usmp.custom_algorithm": "tenure"}):
        ...
"""
import tenure
import tvm
from tvm.tir.usmp.utils import PoolAllocation


def sections(buffers):
    """For each buffer the steps in which it is live, so that two buffers meet exactly if TVM says that they conflict.

    TVM gives conflicts, not live ranges. A buffer and the earlier ones in conflict with it share a step if all of these
    conflict with each other, as those of one program do; otherwise each pair has a step of its own.
    """
    near = [{other.name_hint for other in buffer.conflicts} for buffer in buffers]
    live, step = [[] for _ in buffers], 0
    for i, buffer in enumerate(buffers):
        earlier = [j for j in range(i) if buffers[j].name_hint in near[i]]
        meet = all(buffers[b].name_hint in near[a] for a in earlier for b in earlier if b < a)
        for group in [earlier + [i]] if meet else [[j, i] for j in earlier]:
            for j in group:
                live[j].append(step)
            step += 1
    return live


@tvm.register_func("tir.usmp.algo.tenure")
def plan(buffers, memory_pressure):
    """Offsets for all buffers, each in its first candidate pool."""
    pools, found = {}, {}
    for buffer in buffers:
        pools.setdefault(buffer.pool_candidates[0].pool_name, []).append(buffer)
    for members in pools.values():
        problem = tenure.Problem()
        for buffer, steps in zip(members, sections(members)):
            size = int(buffer.size_bytes)
            problem.add(size, min(steps), max(steps) + 1, alignment=int(buffer.alignment),
                        pieces=[(step, step + 1, 0, size) for step in steps])
        for buffer, offset in zip(members, problem.plan(work_limit=1000000).offsets):
            found[buffer] = PoolAllocation(buffer.pool_candidates[0], int(offset))
    return found

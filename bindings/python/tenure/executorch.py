"""A planner for ExecuTorch's memory-planning suite, when a program is exported.

    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy
    from executorch.exir.passes import MemoryPlanningPass
    import tenure.executorch

    suite = MemoryPlanningAlgorithmSuite(algo_list=[greedy, tenure.executorch.plan])
    config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=suite))
    program = edge_program.to_executorch(config)

The suite calls every algorithm and takes the plan with the fewest bytes. So the program never needs more memory than
without this planner. For ExecuTorch 0.6 and later. After the export, `tenure verify program.pte` checks the plan.
"""
from typing import Any, Dict, Iterable, List, Optional, Tuple

from tenure._problem import Problem

__all__ = ["plan"]


def _size(spec: Any, alignment: int) -> int:
    """Bytes of a tensor, rounded up as ExecuTorch's own planner does."""
    realign = getattr(spec, "realign", None)
    if realign is not None:
        return int(realign(alignment))
    return -(-int(spec.allocated_memory) // alignment) * alignment


def _root(spec: Any, known: Dict[int, Any]) -> Any:
    """The tensor at whose place this one is, through chains of in-place operators."""
    seen = {id(spec)}
    while True:
        base = getattr(spec, "inplace_base", None)
        if base is None or id(base) not in known or id(base) in seen:
            return spec
        seen.add(id(base))
        spec = base


def _groups(specs: List[Any], sizes: Dict[int, int]) -> Dict[int, List[List[Any]]]:
    """By memory: lists of tensors that share one place. A tensor without bytes is not among them."""
    known = {id(spec): spec for spec in specs}
    groups: Dict[int, Dict[int, List[Any]]] = {}
    for spec in specs:
        memory, root = _memory(spec), _root(spec, known)
        if _memory(root) != memory:
            raise ValueError("a tensor of memory %d is in place of one of memory %d" % (memory, _memory(root)))
        of_memory = groups.setdefault(memory, {})
        if sizes[id(spec)] > 0:
            of_memory.setdefault(id(root), []).append(spec)
    return {memory: list(rows.values()) for memory, rows in groups.items()}


def _memory(spec: Any) -> int:
    number = 1 if spec.mem_id is None else int(spec.mem_id)
    if number < 1:
        raise ValueError("memory %d: memories are numbered from 1" % number)
    return number


def _start(graph_module: Any, memory: int, alignment: int) -> int:
    """Bytes at the start of a memory that submodules of the graph use."""
    taken = getattr(graph_module, "input_mem_buffer_sizes", None) or []
    used = int(taken[memory]) if len(taken) > memory else 0
    return -(-used // alignment) * alignment


def _places(groups: List[List[Any]], sizes: Dict[int, int], alignment: int) -> Tuple[List[int], int]:
    """The offset of each group, and the size of the memory."""
    problem = Problem(alignment=alignment)
    for group in groups:
        pieces = []
        for spec in group:
            first, last = spec.lifetime
            if first is None or last is None:
                raise ValueError("a tensor has no lifetime")
            pieces.append((int(first), int(last) + 1, 0, sizes[id(spec)]))
        problem.add(max(piece[3] for piece in pieces), min(piece[0] for piece in pieces),
                    max(piece[1] for piece in pieces), pieces=pieces if len(pieces) > 1 else ())
    if not groups:
        return [], 0
    layout = problem.plan()
    return [int(offset) for offset in layout.offsets], int(layout.peak)


def plan(alignment: int, specs: Iterable[Any], graph_module: Any, graph_signature: Any = None,
         extra_padding: Optional[int] = 0) -> Any:
    """An algorithm of MemoryPlanningAlgorithmSuite: verified offsets for all tensors.

    Keeps what the suite asks for: the alignment, the memory of each tensor (mem_id), tensors in place of others
    (inplace_base), the bytes at the start of a memory that submodules use, and the padding. Does not change the tensors,
    apart from their alignment. The result depends on the graph alone, not on the speed of the machine.
    """
    if isinstance(alignment, bool) or not isinstance(alignment, int):
        raise TypeError("this algorithm needs MemoryPlanningAlgorithmSuite of ExecuTorch 0.6 or later")
    if alignment < 1 or alignment & (alignment - 1):
        raise ValueError("alignment %d is no power of two" % alignment)
    from executorch.exir.memory_planning import MemoryAlgoResult, SpecAllocResult
    tensors = list(specs)
    sizes = {id(spec): _size(spec, alignment) for spec in tensors}
    groups = _groups(tensors, sizes)
    offsets: Dict[int, int] = {}
    totals = [0] * max([2] + [memory + 1 for memory in groups])
    for memory, rows in groups.items():
        start = _start(graph_module, memory, alignment)
        places, used = _places(rows, sizes, alignment)
        totals[memory] = start + used + int(extra_padding or 0)
        for row, place in zip(rows, places):
            offsets.update((id(spec), start + place) for spec in row)
    # Tensors that share bytes must have one object number; one for each memory is enough.
    found = {spec: SpecAllocResult(_memory(spec), 0, offsets.get(id(spec), 0)) for spec in tensors}
    return MemoryAlgoResult(found, totals)

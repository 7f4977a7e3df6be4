"""A plain replay of logs under a budget, as DTR's simulator does it: what `tenure simulate` is compared with.

Objects and sets, Python's integers and its correctly rounded division: no line of it is shared with the library. Written
from what is said of that simulator, not from its text: the order of candidates and of operands, resident results that
take their bytes twice, eviction at the last release, what must be there at the end, and what counts as one access.
"""
import json
import math


class Full(Exception):
    pass


class Over(Exception):
    pass


class Op:
    def __init__(self, cost, inputs):
        self.cost, self.inputs, self.outputs = cost, inputs, []

    def total(self):
        return sum(tensor.size for tensor in self.outputs)


class Storage:
    def __init__(self, size):
        self.size, self.tensors, self.there = size, [], False
        self.locks = self.outside = 0
        self.pinned, self.accessed = False, None
        self.before, self.behind = Region(), Region()  # dropped ancestors, dropped descendants
        self.group = Group(0)

    def cost(self):
        return sum(op.cost for op in {id(t.op): t.op for t in self.tensors}.values())


class Tensor:
    def __init__(self, storage, op, size):
        self.storage, self.op, self.size = storage, op, size
        self.there, self.children, self.refs = False, [], 1
        storage.tensors.append(self)
        storage.outside += 1

    def uses(self):
        """(operator, storage that it makes), an entry an edge, in the order of the operators."""
        return [(child.op, child.storage) for child in self.children]


class Region:
    def __init__(self):
        self.inside, self.edge, self.cost = set(), set(), 0


class Group:
    """A node of a forest: a class of storages that were dropped side by side."""

    def __init__(self, cost):
        self.cost, self.parent = cost, None


class Replay:
    def __init__(self, budget, policy, limit):
        self.budget, self.policy, self.limit = budget, policy, limit
        self.clock, self.used, self.remade, self.accesses = 1, 0, 0, 0
        self.candidates = []

    # --- neighbourhoods ---

    @staticmethod
    def beside(storage, way):
        """Storages of operands, or of what is made from it; one entry an edge."""
        for tensor in storage.tensors:
            yield from (other.storage for other in (tensor.op.inputs if way == "before" else tensor.children))

    def search(self, base, way):
        region = getattr(base, way)
        region.inside, region.edge, region.cost = set(), set(), 0
        stack = [base]
        while stack:
            for other in self.beside(stack.pop(), way):
                self.accesses += 1
                if other.there:
                    region.edge |= {other} - {base}
                elif other not in region.inside:
                    region.inside.add(other)
                    region.cost += other.cost()
                    stack.append(other)

    def absorb(self, region, storage, way):
        other = getattr(storage, way)
        region.edge.discard(storage)  # first, as the other one may be itself: views make cycles of storages
        region.edge |= other.edge
        new = (other.inside - region.inside) | {storage}
        self.accesses += len(new)
        region.cost += sum(each.cost() for each in new)
        region.inside |= new

    def drop_regions(self, storage):
        for neighbour in storage.before.edge:
            self.absorb(neighbour.behind, storage, "behind")
        for neighbour in storage.behind.edge:
            self.absorb(neighbour.before, storage, "before")
        storage.before, storage.behind = Region(), Region()

    def make_regions(self, storages):
        affected = {"before": set(), "behind": set()}
        for storage in storages:
            for way, back in (("before", "behind"), ("behind", "before")):
                self.search(storage, way)
                affected[back] |= getattr(storage, way).edge
        for way, edge in affected.items():
            for storage in edge:
                self.search(storage, way)

    def root(self, group):
        self.accesses += 1
        if group.parent is None:
            return group
        group.parent = self.root(group.parent)
        return group.parent

    def dropped_beside(self, storage):
        found = {}
        for other in self.beside(storage, "before"):
            found[other] = None
            self.accesses += 1
        later = [use for tensor in storage.tensors for use in tensor.uses()]
        for _, other in sorted(later, key=lambda use: use[0].number):
            found[other] = None
            self.accesses += 1
        return [other for other in found if not other.there and other is not storage]

    def join_groups(self, storage):
        storage.group = Group(storage.cost())
        for other in self.dropped_beside(storage):
            a, b = self.root(other.group), self.root(storage.group)
            if a is not b:
                a.parent = b
                b.cost += a.cost

    def leave_groups(self, storages):
        for storage in storages:
            cost = self.root(storage.group).cost
            self.root(storage.group).cost = cost - storage.cost()
            storage.group = None

    # --- who goes ---

    def score(self, storage):
        self.accesses += 1
        stale = storage.size * (self.clock - storage.accessed)
        if self.policy == "lru":
            return storage.accessed
        if self.policy == "largest":
            return 1 / storage.size if storage.size else math.inf
        cost = storage.cost()
        if self.policy == "msps":
            cost += storage.before.cost
            return cost / storage.size if storage.size else math.inf
        if self.policy == "dtr":
            cost += storage.before.cost + storage.behind.cost
        if self.policy == "dtr-eq":
            roots = {id(root): root for root in [self.root(other.group) for other in self.dropped_beside(storage)]}
            cost += sum(root.cost for root in roots.values())
        return cost / stale if stale else math.inf

    def evict(self, storage):
        storage.there = False
        self.used -= storage.size
        if storage in self.candidates:
            self.candidates.remove(storage)
        for tensor in storage.tensors:
            tensor.there = False
        if self.policy in ("dtr", "msps"):
            self.drop_regions(storage)
        if self.policy == "dtr-eq":
            self.join_groups(storage)

    def room(self, size):
        while self.used + size > self.budget:
            best, least = None, math.inf
            for storage in self.candidates:
                score = self.score(storage)
                if score <= least:
                    best, least = storage, score
                if score == 0:
                    break
            if best is None:
                raise Full
            self.evict(best)

    # --- making ---

    def lock(self, storage):
        if storage.locks == 0:
            self.candidates.remove(storage)
        storage.locks += 1

    def unlock(self, storage):
        storage.locks -= 1
        if storage.locks == 0:
            self.candidates.append(storage)

    def make(self, target, again):
        op = target.op
        for tensor in op.inputs:
            tensor.storage.accessed = self.clock
        there = [tensor for tensor in op.inputs if tensor.there]
        absent = [tensor for tensor in op.inputs if not tensor.there]
        for tensor in there:
            self.lock(tensor.storage)
        for tensor in absent:
            if not tensor.there:
                self.make(tensor, True)
            self.lock(tensor.storage)
        self.room(op.total())
        self.run(target, again)
        for tensor in op.inputs:
            self.unlock(tensor.storage)
        if self.remade > self.limit:
            raise Over

    def run(self, target, again):
        op = target.op
        twice = sum(tensor.size for tensor in op.outputs if tensor.there)
        self.clock += op.cost
        self.used += op.total() - twice
        self.remade += op.cost if again else 0
        made = [t.storage for t in op.outputs if t is not target and not t.storage.there]
        made += [] if target.storage.there else [target.storage]
        for tensor in op.outputs:
            tensor.there = tensor.storage.there = True
        self.candidates += made
        if self.policy in ("dtr", "msps"):
            self.make_regions(made)
        if self.policy == "dtr-eq":
            self.leave_groups(made)

    # --- what a log asks for ---

    def apply(self, op, results):
        """results: (size, number of the operand that it is a view of, or -1)"""
        op.number = self.count = getattr(self, "count", 0) + 1
        for size, alias in results:
            storage = Storage(size) if alias < 0 else op.inputs[alias].storage
            op.outputs.append(Tensor(storage, op, size if alias < 0 else 0))
        for tensor in op.inputs:
            tensor.children += op.outputs
        self.make(op.outputs[0], False)
        for tensor in op.outputs:
            tensor.storage.accessed = self.clock
        return op.outputs

    def release(self, tensor):
        tensor.refs -= 1
        storage = tensor.storage
        storage.outside -= 1
        if storage.outside == 0 and storage.there and not storage.pinned:
            self.evict(storage)

    def retain(self, tensor):
        tensor.refs += 1
        tensor.storage.outside += 1

    def pin(self, tensor):
        if not tensor.there:
            self.make(tensor, True)
        if not tensor.storage.pinned:
            self.lock(tensor.storage)
            tensor.storage.pinned = True


def lines_of(text):
    lines = [json.loads(line) for line in text.splitlines()]
    starts = [i for i, line in enumerate(lines) if line.get("ANNOTATION") == "START"]
    return lines[starts[0] + 1:] if starts else lines


def replay(text, budget, policy, limit):
    """("done", "full" or "over"; made again; accesses)"""
    run, names, lines, at = Replay(budget, policy, limit), {}, lines_of(text), 0
    try:
        while at < len(lines):
            line = lines[at]
            what = line["INSTRUCTION"]
            if what == "CONSTANT":
                at += 1
                names[line["NAME"]] = run.apply(Op(0, []), [(int(lines[at]["MEMORY"]), -1)])[0]
                run.pin(names[line["NAME"]])
            elif what == "CALL":
                pairs = lines[at + 1:at + 1 + 2 * len(line["RESULT"])]
                at += len(pairs)
                results = [(int(m["MEMORY"]), int(a["ALIAS"])) for m, a in zip(pairs[::2], pairs[1::2])]
                made = run.apply(Op(int(line["TIME"]), [names[a] for a in line["ARGS"]]), results)
                names.update(zip(line["RESULT"], made))
            elif what == "MUTATE":
                op = Op(int(line["TIME"]), [names[a] for a in line["ARGS"]])
                made = run.apply(op, [(op.inputs[i].storage.size, -1) for i in line["MUTATE"]])
                for i, tensor in zip(line["MUTATE"], made):
                    old, names[line["ARGS"][i]] = names[line["ARGS"][i]], tensor
                    run.release(old)
            elif what == "COPY":
                names[line["DST"]] = names[line["SRC"]]
                run.retain(names[line["SRC"]])
            elif what == "COPY_FROM":
                old, names[line["DST"]] = names[line["DST"]], names[line["SRC"]]
                if old is not names[line["SRC"]]:
                    run.release(old)
                    run.retain(names[line["SRC"]])
            elif what == "RELEASE" and line["NAME"] in names:
                run.release(names[line["NAME"]])
            at += 1
        for tensor in names.values():
            if tensor.refs > 0:
                run.pin(tensor)
    except Full:
        return "full", run.remade, run.accesses
    except Over:
        return "over", run.remade, run.accesses
    return "done", run.remade, run.accesses

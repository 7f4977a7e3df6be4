"""The operators of bench/eager.c in PyTorch's eager mode, from Python: nanoseconds each."""
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(1)

torch.set_num_threads(1)
RUNS = 200000


def measure(run, count):
    least = 1.0
    for _ in range(5):
        since = time.perf_counter()
        run(count // 5)
        least = min(least, (time.perf_counter() - since) / (count // 5))
    return least * 1e9


def loop(operator):
    def run(count):
        for _ in range(count):
            operator()
    return run


def main():
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    print(f"{'PyTorch':10s} {'whole':>10s}   ns, {torch.__version__}, from Python")
    with torch.no_grad():
        for name, operator in (("Add", lambda: torch.add(a, b)), ("Relu", lambda: torch.relu(a)),
                               ("MatMul", lambda: torch.matmul(a, b)), ("Identity", lambda: a.view(4, 4))):
            measure(loop(operator), RUNS // 10)
            print(f"{name:10s} {measure(loop(operator), RUNS):10.0f}")


if __name__ == "__main__":
    main()

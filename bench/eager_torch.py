"""The operators of bench/eager.c in PyTorch's eager mode, from Python: nanoseconds each."""
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(1)

torch.set_num_threads(1)
TURNS, RUNS = 200, 1000  # as in eager.c


def measure(run):
    least = 1.0
    for _ in range(TURNS):
        since = time.process_time()
        run(RUNS)
        least = min(least, (time.process_time() - since) / RUNS)
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
            print(f"{name:10s} {measure(loop(operator)):10.0f}")


if __name__ == "__main__":
    main()

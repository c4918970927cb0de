"""What importing cual costs beyond torch's own import: medians of fresh interpreters.

Wall time doubles beside other work on the same cores, processor time hardly changes: both are shown.
"""

import statistics
import subprocess
import sys

RUNS = 3
PROBE = """
from time import perf_counter, process_time
a, b = perf_counter(), process_time()
{before}
c, d = perf_counter(), process_time()
{measured}
print(c - a, d - b, perf_counter() - c, process_time() - d)
"""


def medians(measured: str, before: str = "pass") -> list[float]:
    """Seconds of `before` and of what is measured after it, each on the clock and on the processor."""
    code = PROBE.format(before=before, measured=measured)
    runs: list[list[float]] = []
    for _ in range(RUNS):
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        runs.append([float(part) for part in told.split()])
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def main() -> None:
    subprocess.run([sys.executable, "-c", "import cual.agent"], check=True)  # so that all files are in memory
    *_, wall, cpu = medians("import cual")
    print(f"import cual:                 {wall:.3f} s ({cpu:.3f} s of processor)")
    torch_wall, torch_cpu, wall, cpu = medians("import cual.agent", before="import torch")
    print(f"import torch:                {torch_wall:.3f} s ({torch_cpu:.3f} s of processor)")
    print(f"then import cual.agent:      {wall:.3f} s ({cpu:.3f} s of processor)")
    print(f"cual.agent in torch's times: {wall / torch_wall:.1%} ({cpu / torch_cpu:.1%} of processor)")


if __name__ == "__main__":
    main()

"""Streams per minute when 1, 4 and 8 streams share a GPU.

    python benchmarks/gpu_jobs.py [../shared/data/eurosat-r50.npz]

Needs numpy, torch and safetensors only, and writes nothing that stays.
"""

import sys
import tempfile
import time
from pathlib import Path

import torch

from cual.bench.jobs import run
from cual.bench.settings import Setting

STREAMS = 8


def main() -> None:
    features = Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/data/eurosat-r50.npz")
    if not torch.cuda.is_available() or not features.exists():
        print(f"skipped: needs a GPU and {features}")
        return
    setting = Setting(str(features), seeds=tuple(range(STREAMS)), first=2, budget=0.005, device="cuda")
    for jobs in (1, 4, 8):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            run(setting, folder, jobs)
            minutes = (time.perf_counter() - began) / 60
        print(f"jobs {jobs}: {STREAMS / minutes:.1f} streams per minute", flush=True)


if __name__ == "__main__":
    main()

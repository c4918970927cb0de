"""A run with several processes that is killed for real, and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cual.bench.folder import read_rows
from cual.bench.jobs import StreamsFailed, run
from cual.types import Row
from processes import alive, children

pytestmark = pytest.mark.more

SLOW = {"head": {"hidden": 256, "epochs": 40}}
"""So that a task takes long enough to be killed in the middle of a stream."""


def numbers(folder: Path) -> dict[tuple[str, int, int], Row]:
    """All rows of a folder without the times, which differ from run to run."""
    rows = read_rows(folder / "results.jsonl")
    plain = [{k: v for k, v in row.items() if k not in ("seconds", "timings")} for row in rows]
    keyed = {(row["method"], row["seed"], row["task"]): row for row in plain}
    assert len(keyed) == len(rows), "a task was written twice"
    return keyed


def wait_until(happened, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


@pytest.mark.attacks
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads child processes from /proc")
def test_a_killed_run_goes_on_and_gives_the_same_numbers(setting, tmp_path):
    setting = replace(setting, options=SLOW)
    whole, tmp_path = tmp_path / "whole", tmp_path / "killed"
    run(setting, whole)
    command = [
        *(Path(sys.executable).with_name("cual"), "bench", "run", "--features", setting.features),
        *("--methods", "cual,er-random", "--seeds", "0,1", "--budget", "0.1", "--jobs", "2"),
        *("--option", f"head={json.dumps(SLOW['head'])}", "--out", str(tmp_path)),
    ]
    started = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    results = tmp_path / "results.jsonl"
    assert wait_until(lambda: len(read_rows(results)) >= 3, 60)
    workers = children(started.pid)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    assert wait_until(lambda: not any(alive(w) for w in workers), 10), "workers outlive the run"
    done = numbers(tmp_path)
    assert 3 <= len(done) < 20, "the run was over before it was killed"
    assert list((tmp_path / "state").iterdir()), "nothing to go on from"
    run(setting, tmp_path)
    assert numbers(tmp_path) == numbers(whole)
    assert {k: numbers(tmp_path)[k] for k in done} == done
    assert not list((tmp_path / "state").iterdir())
    assert (tmp_path / "summary.json").read_text() == (whole / "summary.json").read_text()


def test_a_failing_stream_does_not_take_the_others_along(setting, tmp_path):
    fine = replace(setting, methods=("er-random",), seeds=(0,))
    broken = replace(fine, budget=1e-9)
    with pytest.raises(StreamsFailed, match=r"1 of 2 streams failed(.|\n)*below one label"):
        run({"broken": broken, "fine": fine}, tmp_path, jobs=2)
    assert len(read_rows(tmp_path / "fine" / "results.jsonl")) == 5
    assert read_rows(tmp_path / "broken" / "results.jsonl") == []

"""Installs the wheel with each extra alone into an environment of its own, and uses what the extra is for.

    python tools/extras.py dist/cual-0.2.0-py3-none-any.whl             # bare (-), and every extra for users
    python tools/extras.py dist/cual-0.2.0-py3-none-any.whl onnx serve  # some

No checkout and no cache is seen: the folder is new, and so is HOME. Each takes minutes and a gigabyte or more,
which is removed again.
"""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

BARE = "-"
LEARN = """
import numpy as np
from cual import Agent
rng = np.random.default_rng(0)
y = np.repeat(np.arange(3), 30)
X = (9 * np.eye(3, 6)[y] + rng.standard_normal((90, 6))).astype(np.float32)
agent = Agent.fit(X[y < 2], y[y < 2])
task = agent.adapt(X, budget=9)
while query := task.ask():
    task.tell(query.id, {i: y[i] for i in query.ids})
agent = task.finish()
assert (agent.predict(X) == y).mean() > 0.9
agent.save("v1.agent")
np.savez("all.npz", X=X, y=y)
"""
PICTURES = """
from pathlib import Path
from PIL import Image
for name in ("red", "blue"):
    Path("pictures", name).mkdir(parents=True)
    for i in range(8):
        Image.new("RGB", (64 + i, 64), name).save(f"pictures/{name}/{i}.png")
"""
PARQUET = """
import pyarrow
import pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({f"f{i}": X[:, i] for i in range(6)}), "x.parquet")
"""
SERVE = """
import json, os, signal, socket, subprocess, sys, time, urllib.request
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
cual = os.path.join(os.path.dirname(sys.executable), "cual")
process = subprocess.Popen([cual, "serve", "labels", "--port", str(port)])
try:
    for _ in range(600):
        try:
            health = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10))
            break
        except OSError:
            assert process.poll() is None
            time.sleep(0.5)
    assert health["status"] == "ok", health
finally:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
"""
USES: dict[str, list[list[str]]] = {
    BARE: [
        ["python", LEARN],
        ["cual", "predict", "v1.agent", "all.npz", "-o", "predictions.csv"],
        ["cual", "bench", "run", "--features", "all.npz", "--first", "2", "--budget", "0.1", "--out", "r"],
    ],
    "sklearn": [
        ["python", LEARN + "from cual.bridges.sklearn import CualClassifier\nCualClassifier().fit(X, y)"]
    ],
    "parquet": [
        ["python", LEARN + PARQUET],
        ["cual", "predict", "v1.agent", "x.parquet", "-o", "predictions.csv"],
    ],
    "datasets": [
        ["python", LEARN.replace("agent = task.finish()", "task.save('v1.task')\nagent = task.finish()")],
        ["cual", "export", "v1.task", "-o", "labels", "--format", "datasets"],
        ["python", "import datasets\nassert len(datasets.load_from_disk('labels'))"],
    ],
    "hub": [["python", LEARN + "agent.push_to_hub"], ["cual", "push", "--help"]],
    "encoders": [["python", PICTURES], ["cual", "fit", "pictures", "-o", "pictures.agent"]],
    "bench": [["cual", "bench", "run", "--preset", "smoke", "--out", "r"], ["cual", "bench", "report", "r"]],
    "client": [["python", "import cual\ncual.Client('http://127.0.0.1:9', 'token')"]],
    "gpu": [["python", "import triton"], ["python", LEARN]],
    "onnx": [["python", LEARN], ["cual", "export-model", "v1.agent", "-o", "v1.onnx"]],
    "mlflow": [
        ["python", LEARN],
        ["cual", "export-model", "v1.agent", "-o", "v1.mlflow", "--format", "mlflow"],
    ],
    "ray": [["python", "import ray, cual.bridges.ray.cluster"]],
    "serve": [["python", SERVE]],
}
"""By extra, what it is for: Python that is run, or commands of cual."""
NEIGHBOURS = ("avalanche", "skactiveml", "small-text", "cleanlab", "fiftyone")
"""Extras of bridges that `make test-neighbours` uses."""
OURS = ("dev", "docs", "mutants", "packages")
"""Extras for whoever works on cual."""


def use(wheel: Path, extra: str) -> str:
    """Install and use one; the error, or nothing."""
    with tempfile.TemporaryDirectory(prefix="cual-extra-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        (folder / "work").mkdir()
        (folder / "home").mkdir()
        hidden = ("PYTHON", "CUAL_", "XDG_", "VIRTUAL_ENV")
        known = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        known |= {"HOME": str(folder / "home"), "OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
        known["PATH"] = os.pathsep.join([str(programs), known.get("PATH", "")])
        target = str(wheel.resolve()) + ("" if extra == BARE else f"[{extra}]")
        commands = [[str(programs / "python"), "-m", "pip", "install", "--quiet", target]]
        for program, *arguments in USES[extra]:
            commands.append([str(programs / program), *(["-c"] if program == "python" else []), *arguments])
        for command in commands:
            done = subprocess.run(
                command, cwd=folder / "work", env=known, capture_output=True, text=True, encoding="utf-8"
            )
            if done.returncode:
                return f"{' '.join(command)[:300]}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
    return ""


def main(wheel: Path, extras: list[str]) -> None:
    failed: list[str] = []
    for extra in extras or USES:
        error = use(wheel, extra)
        print(f"{extra:10} {'works' if not error else 'FAILS'}", flush=True)
        if error:
            failed.append(extra)
            print(re.sub(r"^", "    ", error, flags=re.MULTILINE))
    if failed:
        sys.exit(f"these do not work alone: {', '.join(failed)}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])

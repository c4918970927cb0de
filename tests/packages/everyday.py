"""What people do with cual first, in a folder of their own: every help, learn, adapt, predict, save, compare.

A script that `test_elsewhere.py` runs as if it were on another system. What it did is in `done.txt`.
"""

import contextlib
import sys
import warnings
from pathlib import Path

import numpy as np

import cual
from cual.cli import app


def run(*arguments: str) -> int:
    """A command's exit status."""
    try:
        app(list(arguments), standalone_mode=True)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def helps(command: object, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every command below one, itself first."""
    below = getattr(command, "commands", {})
    return [path, *(inner for name, part in below.items() for inner in helps(part, (*path, name)))]


def world() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 40)
    centres = 6 * rng.standard_normal((4, 8))
    return (centres[y] + rng.standard_normal((len(y), 8))).astype(np.float32), y


def main() -> None:
    import typer

    said: list[str] = [f"import cual {cual.__version__}"]
    for path in helps(typer.main.get_command(app), ()):
        assert run(*path, "--help") == 0, path
        said.append(" ".join(("cual", *path, "--help")))
    X, y = world()
    first = np.flatnonzero(y < 2)[:60]
    np.savez("first.npz", X=X[first], y=y[first])
    np.savez("pool.npz", X=X, ids=np.arange(len(y)))
    np.savez("all.npz", X=X, y=y)
    rows = "".join(f"{i},größe {c}\n" for i, c in enumerate(y))
    Path("labels.csv").write_text(f"id,label\n{rows}", encoding="utf-8")

    agent = cual.Agent.fit(X[first], [f"größe {c}" for c in y[first]])
    agent.save("python.agent")
    task = cual.Agent.load("python.agent").adapt(X, budget=12)
    while query := task.ask():
        task.save("python.task")
        task = cual.Adaptation.load("python.task")
        task.tell(query.id, {i: f"größe {y[i]}" for i in query.ids})
    new = task.finish()
    new.save("python.agent")  # over the file that is there
    again = cual.Agent.load("python.agent")
    np.testing.assert_array_equal(again.predict_proba(X), new.predict_proba(X))
    said.append("fit, adapt, predict, save, load")

    for arguments in (
        ("fit", "first.npz", "-o", "v0.agent"),
        ("fit", "first.npz", "-o", "v0.agent", "--force"),
        ("adapt", "python.agent", "pool.npz", "-o", "v1.agent", "--budget", "8", "--labels", "labels.csv"),
        ("predict", "v1.agent", "pool.npz", "-o", "predictions.csv"),
        ("evaluate", "v0.agent", "first.npz"),
        ("info", "v1.agent"),
        ("export", "python.task", "-o", "labels-out.csv"),
        ("ask", "v0.agent", "pool.npz", "--task", "t", "--budget", "4", "-o", "questions.csv"),
        (
            "bench",
            "run",
            "--features",
            "all.npz",
            "--methods",
            "cual-plus,cual",
            "--seeds",
            "0",
            "--out",
            "results",
        ),
        ("bench", "run", "--preset", "smoke", "--out", "smoke"),
    ):
        status = run(*arguments)
        assert status == 0, (arguments, status)
        said.append(" ".join(("cual", *arguments)))
    for arguments in (
        ("serve", "labels"),
        ("invite", "labels", "ada"),
        ("check", "labels"),
        ("clean", "labels"),
    ):
        status = run(*arguments)
        assert status == 2, (arguments, status)
        said.append(f"refused: {' '.join(arguments)}")
    Path("done.txt").write_text("\n".join(said), encoding="utf-8")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="only soft file lock")
    with contextlib.suppress(BrokenPipeError):
        main()
    sys.stdout.flush()

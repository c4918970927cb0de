"""Makes the pages of docs/tutorials: runs a script and puts its code, output and figures into its page.

    python tools/tutorials.py               # all of them
    python tools/tutorials.py satellites    # one
    python tools/tutorials.py --text        # where only text was changed: nothing is run, outputs stay

A script is plain Python in cells, which a stranger runs as it is:

    # %% [markdown]      comments that become text; figures are linked as ![...](figures/NAME.svg)
    # %%                 code; what it prints stands below it
    # %% ± 0.02          code, and by how much numbers that it prints may be others elsewhere
    # %% ± lines         code that prints so many lines; what stands in them may be other elsewhere
    # %% [again] ± 0.02 EUROSAT=../shared/data/eurosat-images
                         no code: the whole script once more, with that folder, if it is there

What is written by hand is the script alone. `tests/test_tutorials.py` runs the scripts again and compares.
"""

import contextlib
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import types
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
NAMES = ("satellites", "intents", "watching", "team", "strategy")
"""In the order in which they are read."""
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
HEAD = re.compile(
    r"# %%(?: \[(?P<kind>\w+)\])?(?: ± (?P<tolerance>[\d.]+|lines))?(?: (?P<variable>\w+)=(?P<path>\S+))?"
)
LONGEST = 1800
"""Seconds after which a script hangs."""


@dataclass(frozen=True)
class Cell:
    """A part of a script."""

    kind: str
    """markdown, code or again."""
    text: str
    line: int = 0
    """Where its text begins in the script, from 0."""
    tolerance: float = 0.0
    """By how much numbers in its output may differ; infinite if only the number of lines counts."""
    variable: str = ""
    path: str = ""


def read_cells(script: str) -> list[Cell]:
    """The cells of a script.

    >>> cells = read_cells("# %% [markdown]\\n# # Hi\\n#\\n# %%\\nx = 1\\n")
    >>> [(cell.kind, cell.text, cell.line) for cell in cells]
    [('markdown', '# Hi', 1), ('code', 'x = 1', 4)]
    """
    cells: list[Cell] = []
    lines = script.splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith("# %%")]
    if begins[:1] != [0]:
        raise ValueError("a script begins with a cell: # %% [markdown]")
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=True):
        head = HEAD.fullmatch(lines[begin])
        if head is None:
            raise ValueError(f"line {begin + 1}: {lines[begin]!r} begins no kind of cell that there is")
        body = lines[begin + 1 : end]
        kind = head["kind"] or "code"
        if kind == "markdown":
            body = [line.removeprefix("#").removeprefix(" ") for line in body]
        text = "\n".join(body).strip("\n")
        tolerance = math.inf if head["tolerance"] == "lines" else float(head["tolerance"] or 0)
        cells.append(Cell(kind, text, begin + 1, tolerance, head["variable"] or "", head["path"] or ""))
    return cells


# -- running --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """What a script did."""

    outputs: list[str]
    """What each of its cells printed; "" of those without code."""
    figures: Mapping[str, bytes]
    """By the names of their files."""


def run(script: Path, variables: Mapping[str, str] | None = None) -> Ran:
    """Run a script from start to end in an empty folder, in a process of its own.

    Its cache is empty as well, and it finds the commands of this Python's environment. Pictures are drawn the
    same each time, so that a page changes only where something has changed.
    """
    with tempfile.TemporaryDirectory(prefix="tutorial-") as name:
        place = Path(name)
        work = place / "work"
        work.mkdir()
        style = place / "matplotlibrc"
        style.write_text("backend: Agg\nsvg.hashsalt: cual\nsavefig.dpi: 100\n", encoding="utf-8")
        surroundings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "CUAL_"))}
        surroundings |= {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "CUAL_CACHE": str(place / "cache"),
            "MATPLOTLIBRC": str(style),
            "SOURCE_DATE_EPOCH": "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "100",
            **(variables or {}),
        }
        report = place / "report.json"
        command = [sys.executable, str(Path(__file__).resolve()), "--run", str(script.resolve()), str(report)]
        with _alone(command, work, surroundings) as process:
            out, errors = process.communicate(timeout=LONGEST)
        if process.returncode:
            raise RuntimeError(f"{script.name} failed:\n{out[-2000:]}\n{errors[-4000:]}")
        figures = {file.name: file.read_bytes() for file in sorted((work / "figures").glob("*"))}
        return Ran(json.loads(report.read_text(encoding="utf-8")), figures)


@contextlib.contextmanager
def _alone(command: list[str], folder: Path, surroundings: dict[str, str]) -> Generator[subprocess.Popen[str]]:
    """A process in a group of its own, of which nothing is left afterwards: no service, no browser."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, env=surroundings, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def execute(script: Path, report: Path) -> None:
    """Run the cells of a script in this process, as one program, and write down what each of them printed."""
    source = script.read_text(encoding="utf-8")
    program = types.ModuleType("__main__")
    program.__file__ = str(script)
    sys.modules["__main__"] = program
    sys.argv = [str(script)]
    outputs: list[str] = []
    screen = os.dup(1)
    for cell in read_cells(source):
        if cell.kind != "code":
            outputs.append("")
            continue
        code = compile("\n" * cell.line + cell.text, script, "exec")
        with tempfile.TemporaryFile() as printed:
            os.dup2(printed.fileno(), 1)  # not only sys.stdout: commands that the script runs print, too
            try:
                exec(code, program.__dict__)
            finally:
                sys.stdout.flush()
                os.dup2(screen, 1)
                printed.seek(0)
                output = printed.read().decode(errors="replace")
                print(output, end="", flush=True)
        outputs.append("\n".join(line.rstrip() for line in output.strip("\n").splitlines()))
    report.write_text(json.dumps(outputs), encoding="utf-8")


def data_of(cell: Cell) -> Path:
    """The data that a script is run again with; a path of this repository."""
    return (ROOT / cell.path).resolve()


def run_again(script: Path, cell: Cell) -> Ran:
    return run(script, {cell.variable: str(data_of(cell))})


def as_one(ran: Ran) -> str:
    """All that a script printed."""
    return "\n".join(output for output in ran.outputs if output)


# -- pages ----------------------------------------------------------------------------------------------------


def render(name: str, cells: Sequence[Cell], outputs: Sequence[str]) -> str:
    """The page of a script, given what its cells printed."""
    title, _, rest = cells[0].text.partition("\n")
    made = f"*Made of [{name}.py]({name}.py), which runs as it is: `python {name}.py`.*"
    parts = [title, made, rest.strip("\n")]
    for cell, output in zip(cells[1:], outputs[1:], strict=True):
        if cell.kind == "markdown":
            parts.append(cell.text)
            continue
        parts.append(_shown(name, cell))
        if output:
            parts.append(f"```text\n{output}\n```")
            if cell.tolerance:
                parts.append(_note(cell.tolerance))
    return "\n\n".join(part for part in parts if part) + "\n"


def _note(tolerance: float) -> str:
    if tolerance == math.inf:
        return "*What stands in these lines may differ on another machine.*"
    return f"*Numbers may differ by {tolerance:g} on another machine.*"


def _shown(name: str, cell: Cell) -> str:
    if cell.kind == "again":
        return f"```sh\n{cell.variable}={Path(cell.path).name} python {name}.py\n```"
    return f"```python\n{cell.text}\n```"


def outputs_in(name: str, cells: Sequence[Cell], page: str) -> list[str]:
    """What a page says that each cell printed; the inverse of `render`, as far as outputs go."""
    outputs: list[str] = []
    at = 0
    for cell in cells:
        if cell.kind == "markdown":
            outputs.append("")
            continue
        block = _shown(name, cell) + "\n"
        found = page.find(block, at)
        if found < 0:
            raise LookupError(
                f"{name}.md lacks what stands in line {cell.line + 1} of {name}.py: make tutorials"
            )
        at = found + len(block)
        output = re.compile(r"\n```text\n(.*?)\n```\n", re.DOTALL).match(page, at)
        outputs.append(output[1] if output else "")
        at = output.end() if output else at
    return outputs


def differences(expected: str, printed: str, tolerance: float = 0.0) -> list[str]:
    """Lines that are not what they should be; numbers may differ by the tolerance, words not at all.

    >>> differences("accuracy 0.91 of 20", "accuracy 0.90 of 20", 0.02)
    []
    >>> differences("accuracy 0.91 of 20", "accuracy 0.90 of 21", 0.02)
    ["'accuracy 0.91 of 20' is now 'accuracy 0.90 of 21'"]
    """
    old, new = expected.splitlines(), printed.splitlines()
    if len(old) != len(new):
        return [f"{len(old)} lines are now {len(new)}:\n{printed}"]
    if tolerance == math.inf:
        return []
    return [f"{a!r} is now {b!r}" for a, b in zip(old, new, strict=True) if not _alike(a, b, tolerance)]


def differences_again(expected: str, cells: Sequence[Cell], ran: Ran, tolerance: float) -> list[str]:
    """The same for a script that was run again: all its cells, each as it may differ, or more."""
    old, wrong = expected.splitlines(), list[str]()
    if len(old) != len(as_one(ran).splitlines()):
        return differences(expected, as_one(ran))
    for cell, output in zip(cells, ran.outputs, strict=True):
        part = output.splitlines()
        wrong += differences("\n".join(old[: len(part)]), output, max(tolerance, cell.tolerance))
        old = old[len(part) :]
    return wrong


def _alike(old: str, new: str, tolerance: float) -> bool:
    if old == new:
        return True
    words = [" ".join(part.split()) for part in NUMBER.split(old)]
    if not tolerance or words != [" ".join(part.split()) for part in NUMBER.split(new)]:
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    return all(
        abs(float(a.replace(",", "")) - float(b.replace(",", ""))) <= tolerance * 1.000001 for a, b in pairs
    )


def figures_in(page: str) -> set[str]:
    """Files of figures that a page shows."""
    return set(re.findall(r"!\[[^]]*\]\(figures/([^)]+)\)", page))


def make_text(name: str) -> None:
    """Write a page anew whose code is as it was: what it printed stays."""
    page = FOLDER / f"{name}.md"
    cells = read_cells((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    outputs = outputs_in(name, cells, page.read_text(encoding="utf-8"))
    page.write_text(render(name, cells, outputs), encoding="utf-8")


def make(name: str) -> None:
    """Run a script, and write its page and its figures."""
    script = FOLDER / f"{name}.py"
    cells = read_cells(script.read_text(encoding="utf-8"))
    ran = run(script)
    outputs, figures = list(ran.outputs), dict(ran.figures)
    for number, cell in enumerate(cells):
        if cell.kind == "again":
            if not data_of(cell).exists():
                sys.exit(f"{name}: the page needs {data_of(cell)}, which is not here")
            again = run_again(script, cell)
            outputs[number] = as_one(again)
            figures |= again.figures
    page = render(name, cells, outputs)
    if figures_in(page) != set(figures):
        sys.exit(f"{name}: the page shows {sorted(figures_in(page))}, but the script drew {sorted(figures)}")
    (FOLDER / "figures").mkdir(exist_ok=True)
    for file, drawn in figures.items():
        (FOLDER / "figures" / file).write_bytes(_small(drawn) if file.endswith(".png") else drawn)
    (FOLDER / f"{name}.md").write_text(page, encoding="utf-8")
    print(f"docs/tutorials/{name}.md: {len(page.splitlines())} lines, {len(figures)} figures")


def _small(picture: bytes) -> bytes:
    """A PNG in 128 colours: screenshots need no more, and take a third of the room."""
    from PIL import Image

    small = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(128).save(small, "PNG", optimize=True)
    return small.getvalue()


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--run"]:
        execute(Path(arguments[1]), Path(arguments[2]))
        return
    names = [Path(given).stem for given in arguments if given != "--text"]
    for name in names or NAMES:
        if "--text" in arguments:
            make_text(name)
        else:
            make(name)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Driving an adaptation from the command line: open or resume it, get it answered, write its ledger."""

import filecmp
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
import typer
from rich.markup import escape

from cual.agent import Agent
from cual.cli.answers import Recorded
from cual.cli.output import Bars, counted, err, listed
from cual.cli.questions import LeftOpen, Questions
from cual.cli.showing import Showing
from cual.data.labels import SKIP, Answer
from cual.data.pool import Pool
from cual.errors import BadOption
from cual.loop.adaptation import Adaptation
from cual.loop.budget import count_labels
from cual.loop.files import AGENT, is_saved
from cual.storage import write_bytes
from cual.types import Label


def open_task(
    folder: Path | None, agent_file: Path, agent: Agent, pool: Pool, budget: float | int, bars: Bars
) -> Adaptation:
    """The adaptation that lies in `folder`, or else a new one; what lies there must be of the same inputs."""
    if folder is None or not is_saved(folder):
        return agent.adapt(pool, budget, progress=bars)
    task = Adaptation.load(folder, agent.device, bars)
    wanted = count_labels(budget, len(pool), agent.method.budget_factor)
    differs = ""
    if not _same_agent(agent_file, folder / AGENT, agent, task.agent):
        differs = "of another agent"
    elif not _same(task.pool, pool):
        differs = "of another pool"
    elif wanted < task.budget:
        differs = f"with a budget of {task.budget} labels, not {wanted}: it can be raised, not lowered"
    elif wanted > task.budget and task.state.finished:
        differs = f"that is finished, with a budget of {task.budget} labels"
    if differs:
        raise BadOption(
            f"{folder} holds an adaptation {differs}; give another folder with --task, or delete it"
        )
    if wanted > task.budget:
        err.print(f"the budget is raised from {task.budget} to {wanted} labels", highlight=False)
        task.raise_budget(budget)
    err.print(
        f"going on with {escape(str(folder))}: {task.labels_used} of {task.budget} labels used", highlight=False
    )
    return task


def _same_agent(one_file: Path, other_file: Path, one: Agent, other: Agent) -> bool:
    """Whether two files hold the same agent, though an earlier cual may have written one of them."""
    if filecmp.cmp(one_file, other_file, shallow=False):
        return True
    with tempfile.TemporaryDirectory() as name:
        one.save(Path(name) / "one")
        other.save(Path(name) / "other")
        return filecmp.cmp(Path(name) / "one", Path(name) / "other", shallow=False)


def _same(one: Pool, other: Pool) -> bool:
    if one.ids != other.ids or one.width != other.width:
        return False
    rows = np.arange(len(one))
    both = zip(one.chunks(rows), other.chunks(rows), strict=True)
    return all(torch.equal(a, b) for (_, a), (_, b) in both)


def from_file(
    task: Adaptation, folder: Path | None, answers: Mapping[Label, Answer], only_asked: bool = False
) -> None:
    """Answer from recorded labels, and use the others, too, unless only what is asked for is wanted.

    What is asked for and not recorded counts as "cannot tell", with a warning.
    """
    missing: list[str] = []

    def keep() -> None:
        if folder is not None:
            task.save(folder)

    while query := task.ask():
        task.tell(query.id, {sample: answers.get(sample, SKIP) for sample in query.ids})
        missing += [str(sample) for sample in query.ids if sample not in answers]
        if not only_asked:
            _volunteer(task, answers)
            task.stop()  # the file has nothing more to say
        keep()
    if not only_asked and not task.state.finished:
        _volunteer(task, answers)
        keep()
    if missing:
        many = f"{len(missing)} of the samples asked about have no answer in the file and were skipped: "
        err.print(escape(many + listed(missing, most=5)), style="yellow", highlight=False, soft_wrap=True)


def _volunteer(task: Adaptation, answers: Mapping[Label, Answer]) -> None:
    """Give the learner the labels that nobody asked for."""
    asked = {row["sample"] for row in task.ledger if not row.get("recorded")}
    task.volunteer({s: answer for s, answer in answers.items() if answer is not SKIP and s not in asked})


def tell_of_unused(path: Path, recorded: Recorded) -> None:
    """Say which lines of a file of answers were not used, by their numbers."""

    def say(lines: Iterable[int], why: str) -> None:
        numbers = [str(line) for line in lines]
        word = "line" if len(numbers) == 1 else "lines"
        text = f"{path}, {word} {listed(numbers, most=20)}: {why}"
        err.print(escape(text), style="yellow", highlight=False, soft_wrap=True)

    if recorded.unknown:
        say(recorded.unknown, "no such sample in the pool; not used")
    if recorded.believed:
        say(recorded.believed, "believed, not answered by anybody; not used")
    for new, known in recorded.near.items():
        text = f"{path}: {new!r} is taken for a new class; did you mean {known!r}?"
        err.print(escape(text), style="yellow", highlight=False, soft_wrap=True)
    for why in dict.fromkeys(recorded.invalid.values()):
        say([line for line, said in recorded.invalid.items() if said == why], f"{why}; not used")


def ask_person(task: Adaptation, folder: Path, bars: Bars, showing: Showing | None = None) -> None:
    """Ask in the terminal, and save after every answer; ends the command where the person stops."""

    def keep() -> None:
        bars.clear()
        task.save(folder)

    keep()
    code = 0
    reason = ""
    try:
        return Questions(task, keep, showing).run()
    except LeftOpen:
        pass
    except KeyboardInterrupt:
        code = 130
    except EOFError:
        code = 1
        reason = "the input ended before the last question; "
    bars.clear()
    kept = f"{counted(len(task.answers), 'answer')} kept in {folder}"
    message = f"\n{reason}{kept}; the same command goes on from there"
    err.print(escape(message), highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def write_ledger(path: Path, task: Adaptation) -> None:
    """One JSON row per sample asked about."""
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in task.ledger)
    write_bytes(path, lines.encode())

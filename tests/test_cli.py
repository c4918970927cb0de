"""The command line: every command on real files, its errors, and questions in the terminal."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner, Result

from cual import Agent
from cual.cli import app
from cual.cli.output import counted
from cual.cli.reading import read_options
from cual.learned import marks_of
from cual.loop import earlier
from cual.methods import methods
from worlds import World, make_world

QUICK = ("--option", "head.hidden=16", "--option", "head.epochs=3")
SMALL = (*QUICK, "--buffer", "60", "--method", "cual")
BUDGET = 8


def cual(*arguments: object, input: str | None = None) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=input, env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments: object, input: str | None = None) -> Result:
    result = cual(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> str:
    """The one line that a command ends with that cannot do what it was told."""
    result = cual(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


class Desk:
    """A folder with a world's files: labelled features, a pool, answers, and an agent of the first classes."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self.first, self.pool = folder / "first.npz", folder / "pool.npz"
        self.agent, self.next = folder / "v0.agent", folder / "v1.agent"
        self.answers = folder / "answers.csv"
        np.savez(self.first, X=world.X, y=np.array(world.y))
        np.savez(self.pool, X=world.pool, ids=np.array(world.ids))
        write_answers(self.answers, world.truth)
        done("fit", self.first, "-o", self.agent, *SMALL)

    @property
    def adapt(self) -> tuple[object, ...]:
        return ("adapt", self.agent, self.pool, "-o", self.next, "--budget", BUDGET)

    def typed(self, until: int | None = None) -> list[str]:
        """What a person types who knows the truth, question by question."""
        task = Agent.load(self.agent).adapt(self.world.pool, BUDGET, ids=self.world.ids)
        return [row["answer"] for row in self.world.answer_all(task).ledger][:until]


def write_answers(path: Path, answers: dict[Any, Any]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "label"), *answers.items()])


def lines(*answers: str) -> str:
    return "".join(answer + "\n" for answer in answers)


@pytest.fixture
def desk(tmp_path: Path, world: World) -> Desk:
    return Desk(tmp_path, world)


# -- fit -------------------------------------------------------------------------------------------------------


def test_fit_writes_the_agent_that_the_library_fits(desk: Desk, world: World) -> None:
    written = Agent.load(desk.agent)
    assert written.predict(world.pool).tolist() == world.agent().predict(world.pool).tolist()
    assert written.method == world.agent().method


def test_fit_reads_parquet(desk: Desk, world: World, tmp_path: Path) -> None:
    file, agent = tmp_path / "first.parquet", tmp_path / "p.agent"
    pq.write_table(pa.table({"x": list(world.X), "label": world.y}), file)
    assert "2 classes learned from 60 samples" in done("fit", file, "-o", agent, *SMALL).stdout
    assert agent.read_bytes() == desk.agent.read_bytes()


def test_fit_takes_method_seed_and_options(desk: Desk, tmp_path: Path) -> None:
    changes = ("believe.alpha=0.1", "then=top", "learner.uncertainty.variance=0.9", "learner.epochs=2")
    flags = (flag for change in changes for flag in ("--option", change))
    done("fit", desk.first, "-o", tmp_path / "a", *SMALL, "--seed", 7, *flags)
    agent = Agent.load(tmp_path / "a")
    assert agent.method == methods["cual"].but(
        buffer=60,
        believe={"alpha": 0.1},
        then="top",
        learner={"uncertainty": {"variance": 0.9}, "epochs": 2},
        head={"hidden": 16, "epochs": 3},
    )
    assert (agent.seed, agent.replay.capacity) == (7, 60)


def test_fit_takes_options_by_the_names_of_the_earlier_release(desk: Desk, tmp_path: Path) -> None:
    changes = ("alpha=0.1", "iterations=3", "head_options.hidden=16", "head_options.epochs=3")
    flags = [flag for change in changes for flag in ("--option", change)]
    done("fit", desk.first, "-o", tmp_path / "a", "--method", "cual", *flags)
    method = Agent.load(tmp_path / "a").method
    assert method == methods["cual"].but(believe={"alpha": 0.1}, rounds=3, head={"hidden": 16, "epochs": 3})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "magic"), "no method is called 'magic'; known: cual"),
        (("--option", "alfa=1"), "no option 'alfa'"),
        (("--option", "rounds"), "name=value"),
        (("--option", "learner..few=1"), "name=value"),
        (("--option", "learner.=1"), "name=value"),
        (("--option", "learner.few=some"), "few is 'some', but takes a whole number"),
        (("--option", "rounds=2.5"), "rounds is 2.5"),
        (("--option", "ends_below_threshold=1"), "ends_below_threshold is 1"),
        (("--option", "believe.share=7"), "share lies between 0 and 1"),
        (("--option", "believe.alpha=0.1"), "'likelier-than-not' has no alpha; it has share"),
        (("--option", "head=3", "--option", "head.shrink=1"), "head is 3, but takes options by name"),
        (("--option", "head.shrinc=3"), "has no shrinc; it has shrink, expand"),
        (("--option", "head_options=3"), "head_options is 3"),
        (("--method", "cual", "--option", "learner.uncertainty.k=3"), "'fre' has no k; it has variance"),
        (("--method", "cual", "--option", "head.hidden=0"), "head 'mlp': hidden is at least 1, not 0"),
        (("--device", "abacus"), "no device 'abacus'"),
        (("--buffer", "0"), "buffer is at least 1"),
    ],
)
def test_fit_refuses_what_no_method_has(desk: Desk, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("fit", desk.first, "-o", desk.next, *arguments)
    assert not desk.next.exists()


def test_options_of_parts_add_up() -> None:
    assert read_options(["head.hidden=3", "head.lr=0.1", "then=margin"]) == {
        "head": {"hidden": 3, "lr": 0.1},
        "then": "margin",
    }
    deep = ["learner.uncertainty=knn", "learner.uncertainty.k=3", "learner.epochs=2"]
    for texts in (deep, deep[::-1]):
        assert read_options(texts) == {"learner": {"uncertainty": {"name": "knn", "k": 3}, "epochs": 2}}
    assert read_options(['head={"hidden": 3, "lr": 0.1}', "head.hidden=4"]) == {
        "head": {"hidden": 4, "lr": 0.1}
    }
    assert read_options(["believe="]) == {"believe": ""}


def test_files_that_cannot_be_used_are_one_line(desk: Desk, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    text = tmp_path / "text.npz"
    text.write_text("not features")
    assert "missing.npz" in refused("fit", f"{missing}.npz", "-o", desk.next)
    assert "text.npz is not an .npz file" in refused("fit", text, "-o", desk.next)
    assert "no labels" in refused("fit", desk.pool, "-o", desk.next)
    assert "missing: No such file" in refused("predict", missing, desk.pool)
    assert "not written by cual" in refused("predict", desk.first, desk.pool)
    assert "Is a directory" in refused("info", tmp_path)
    assert "missing: No such file" in refused(*desk.adapt, "--labels", missing)


def test_an_existing_agent_is_replaced_only_by_force(desk: Desk) -> None:
    before = desk.agent.read_bytes()
    assert "--force" in refused("fit", desk.first, "-o", desk.agent, "--seed", 1)
    assert "--force" in refused("adapt", desk.agent, desk.pool, "-o", desk.agent, "--budget", 4)
    assert "is a folder" in refused("fit", desk.first, "-o", desk.folder)
    assert desk.agent.read_bytes() == before
    done("fit", desk.first, "-o", desk.agent, "--seed", 1, "--force", *SMALL)
    assert Agent.load(desk.agent).seed == 1


# -- adapt, from recorded answers ------------------------------------------------------------------------------


def test_adapt_from_a_file_is_what_the_library_does(desk: Desk, world: World, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    shown = done(*desk.adapt, "--labels", desk.answers, "--only-asked", "--ledger", ledger).stdout
    task = world.answer_all(world.adapt(Agent.load(desk.agent)))
    task.finish().save(tmp_path / "expected")
    assert desk.next.read_bytes() == (tmp_path / "expected").read_bytes()
    assert "owl" in shown
    assert "Füchsin mit Schal" in shown
    assert f"{task.labels_used} of {BUDGET}" in shown
    assert str(task.outcome["ended"]) in shown
    assert str(task.outlook) in shown
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert [(row["sample"], row["answer"]) for row in rows] == [(r["sample"], r["answer"]) for r in task.ledger]
    assert not (tmp_path / "v1.agent.task").exists()


def test_a_share_of_the_pool_is_a_budget_too(desk: Desk) -> None:
    done("adapt", desk.agent, desk.pool, "-o", desk.next, "--budget", "0.1", "--labels", desk.answers)
    assert Agent.load(desk.next).history[0]["budget"] == round(0.1 * len(desk.world.pool))


def test_empty_labels_are_skips_and_missing_ones_too_with_a_warning(desk: Desk, world: World) -> None:
    asked = [row["sample"] for row in world.answer_all(world.adapt(Agent.load(desk.agent))).ledger]
    answers = {k: v for k, v in world.truth.items() if k != asked[0]} | {asked[1]: ""}
    write_answers(desk.answers, {"of another pool": "cat", **answers})
    result = done(*desk.adapt, "--labels", desk.answers, "--only-asked")
    assert "have no answer in the file and were skipped" in result.stderr
    assert "line 2: no such sample in the pool; not used" in result.stderr
    assert asked[0] in result.stderr
    assert asked[1] not in result.stderr
    assert "skipped" in result.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\nx,cat\n", "names no sample of the pool, whose ids are like 'img_"),
        ("id,name\nimg_000.jpg,cat\n", "has no column label"),
        ("", "has no column id and no column label"),
        ("id,label\nimg_000.jpg\n", "line 2: no label column"),
        ("id,label\nimg_000.jpg,cat\nimg_000.jpg,dog\n", "line 3: id 'img_000.jpg' has another label"),
        ("id,label\nimg_000.jpg,\xff\n", "UTF-8"),
    ],
)
def test_a_file_of_answers_that_cannot_be_used(desk: Desk, text: str, message: str) -> None:
    desk.answers.write_bytes(text.encode("latin-1"))
    assert message in refused(*desk.adapt, "--labels", desk.answers)
    assert not desk.next.exists()


def test_answers_with_a_byte_order_mark_and_spaces_are_read(desk: Desk, world: World) -> None:
    rows = "".join(f"{sample}, {label}\r\n" for sample, label in world.truth.items())
    desk.answers.write_text("\ufeffid, label\r\n" + rows, encoding="utf-8")
    done(*desk.adapt, "--labels", desk.answers)
    assert set(Agent.load(desk.next).classes_.tolist()) == {"cat", "dog", "owl", "Füchsin mit Schal"}


@pytest.mark.parametrize("budget", ["many", "0", "0.0001", "-1", "1.5"])
def test_a_budget_must_be_one(desk: Desk, budget: str) -> None:
    assert "budget" in refused("adapt", desk.agent, desk.pool, "-o", desk.next, "--budget", budget)


def test_nothing_novel_is_said_plainly(tmp_path: Path) -> None:
    world = make_world(novel=())
    desk = Desk(tmp_path, world)
    np.savez(desk.pool, X=world.X, ids=np.array([f"again {i}" for i in range(len(world.X))]))
    write_answers(desk.answers, {f"again {i}": label for i, label in enumerate(world.y)})
    shown = done(*desk.adapt, "--labels", desk.answers).stdout
    assert "Nothing novel was found" in shown
    assert Agent.load(desk.next).version == 1
    assert Agent.load(desk.next).classes_.tolist() == ["cat", "dog"]


class Numbered(Desk):
    """The same desk with whole numbers for classes and no ids in the pool."""

    NUMBERS: ClassVar = {"cat": 0, "dog": 1, "owl": 2, "Füchsin mit Schal": 3}

    def __init__(self, folder: Path, world: World) -> None:
        super().__init__(folder, world)
        np.savez(self.first, X=world.X, y=np.array([self.NUMBERS[label] for label in world.y]))
        np.savez(self.pool, X=world.pool)
        write_answers(self.answers, {i: self.NUMBERS[label] for i, label in enumerate(world.truth.values())})
        done("fit", self.first, "-o", self.agent, "--force", *SMALL)


def test_labels_become_whole_numbers_where_the_classes_are(tmp_path: Path, world: World) -> None:
    desk = Numbered(tmp_path, world)
    done(*desk.adapt, "--labels", desk.answers)
    assert Agent.load(desk.next).classes_.tolist()[:2] == [0, 1]
    assert set(Agent.load(desk.next).classes_.tolist()) == {0, 1, 2, 3}
    write_answers(desk.answers, {0: "0", 1: "owl", 2: "hen"})
    told = done(*desk.adapt, "--labels", desk.answers, "--force").stderr
    assert "line 3: 'owl' is not a whole number" in told
    assert "line 4: 'hen' is not a whole number" in told
    assert (
        Agent.load(desk.next).history[0]["volunteered"] + Agent.load(desk.next).history[0]["labels_used"] == 1
    )
    write_answers(desk.answers, {1: "owl"})
    line = refused(*desk.adapt, "--labels", desk.answers, "--force")
    assert "line 2: 'owl' is not a whole number" in line


def test_every_valid_label_of_a_file_is_learned(desk: Desk, world: World, tmp_path: Path) -> None:
    """19 given, 1 used: no more."""
    given = dict(list(world.truth.items())[:19])
    write_answers(desk.answers, {"of another pool": "cat", **given, "nor this": "dog"})
    ledger = tmp_path / "ledger.jsonl"
    result = done(*desk.adapt, "--labels", desk.answers, "--ledger", ledger)
    agent = Agent.load(desk.next)
    (row,) = agent.history
    assert row["labels_used"] + row["volunteered"] == 19
    assert row["labels_used"] <= BUDGET
    assert set(agent.classes_.tolist()) >= set(given.values())
    assert f"{row['volunteered']} more were given unasked" in result.stdout
    assert "lines 2, 22: no such sample in the pool; not used" in result.stderr
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert {row["sample"]: row["answer"] for row in rows if row["answer"]} == given
    assert sum(asked["charged"] for asked in rows) == row["labels_used"]
    marks = marks_of(torch.from_numpy(world.pool[:19]))
    assert np.isin(marks, [*agent.learned.marks, *marks_of(agent.validation.X)]).all()
    shown = done("info", desk.next).stdout
    assert f"{row['labels_used']} of {BUDGET} and {row['volunteered']} unasked" in shown


def test_labels_of_a_file_are_learned_once_when_a_task_goes_on(desk: Desk) -> None:
    command = (*desk.adapt, "--labels", desk.answers, "--task", desk.folder / "kept", "--force")
    done(*command)
    before = desk.next.read_bytes()
    done(*command)
    assert desk.next.read_bytes() == before
    assert "goes with --labels" in refused(*desk.adapt, "--only-asked", "--force")


def test_a_larger_budget_goes_on_with_an_ended_adaptation(desk: Desk) -> None:
    at = ("adapt", desk.agent, desk.pool, "-o", desk.next, "--labels", desk.answers, "--force", "--only-asked")
    command = (*at, "--task", desk.folder / "kept", "--budget")
    done(*command, BUDGET)
    raised = done(*command, BUDGET + 4)
    assert f"raised from {BUDGET} to {BUDGET + 4} labels" in raised.stderr
    assert Agent.load(desk.next).history[0]["labels_used"] == BUDGET + 4
    assert f"budget of {BUDGET + 4} labels, not {BUDGET}: it can be raised" in refused(*command, BUDGET)


def test_a_larger_budget_goes_on_with_what_was_asked_in_the_terminal(desk: Desk) -> None:
    done(*desk.adapt, input=lines(*desk.typed(), ""))
    assert Agent.load(desk.next).history[0]["labels_used"] == BUDGET
    more = ("adapt", desk.agent, desk.pool, "-o", desk.next, "--budget", BUDGET + 3, "--force")
    task = Agent.load(desk.agent).adapt(desk.world.pool, BUDGET, ids=desk.world.ids)
    while query := task.ask():
        task.tell(query.id, {sample: desk.world.truth[sample] for sample in query.ids})
    task.raise_budget(BUDGET + 3)
    typed: list[str] = []
    while query := task.ask():
        typed += [desk.world.truth[str(sample)] for sample in query.ids]
        task.tell(query.id, {sample: desk.world.truth[sample] for sample in query.ids})
    assert len(typed) == 3
    done(*more, input=lines(*typed, ""))
    task.finish().save(desk.folder / "expected")
    assert desk.next.read_bytes() == (desk.folder / "expected").read_bytes()


# -- adapt, from the terminal ----------------------------------------------------------------------------------


def test_typed_answers_give_the_same_agent_as_recorded_ones(desk: Desk) -> None:
    done(*desk.adapt, "--labels", desk.answers, "--only-asked")
    recorded = desk.next.read_bytes()
    result = done(*desk.adapt, "--force", input=lines(*desk.typed(), ""))
    assert desk.next.read_bytes() == recorded
    assert "img_" in result.stdout
    assert "score" in result.stdout
    assert "new class owl" in result.stdout


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 7])
def test_quitting_and_going_on_gives_the_same_file(desk: Desk, tmp_path: Path, after: int) -> None:
    done(*desk.adapt, input=lines(*desk.typed(), ""))
    uninterrupted = desk.next.read_bytes()
    command = ("adapt", desk.agent, desk.pool, "-o", tmp_path / "resumed", "--budget", BUDGET)
    command = (*command, "--task", tmp_path / "kept")
    answers = desk.typed()
    left = done(*command, input=lines(*answers[:after], "q"))
    assert f"{counted(after, 'answer')} kept in" in left.stderr
    assert not (tmp_path / "resumed").exists()
    resumed = done(*command, input=lines(*answers[after:], ""))
    assert f"{after} of {BUDGET} labels used" in resumed.stderr
    assert (tmp_path / "resumed").read_bytes() == uninterrupted


def test_input_that_ends_early_is_saved_but_no_success(desk: Desk) -> None:
    answers = desk.typed()
    ended = cual(*desk.adapt, input=lines(*answers[:3]))
    assert ended.exit_code == 1
    assert "the input ended" in ended.stderr
    done(*desk.adapt, input=lines(*answers[3:]))
    assert Agent.load(desk.next).history[0]["labels_used"] == len(answers)


def test_enter_takes_the_suggestion_only_where_there_is_one(desk: Desk) -> None:
    first = done(*desk.adapt, input=lines("", "owl", "q")).stdout
    assert "there is no suggestion here" in first
    task = Agent.load(desk.agent).adapt(desk.world.pool, BUDGET, ids=desk.world.ids)
    while (query := task.ask()) and query.suggestions[0] is None:
        task.tell(query.id, dict.fromkeys(query.ids, "owl"))
    assert query is not None
    owls = ["owl"] * task.labels_used
    kept = ("--task", desk.folder / "t", "--ledger", desk.folder / "ledger")
    result = done(*desk.adapt, *kept, input=lines(*owls, "", "q"))
    assert f"[{query.suggestions[0]}]" in result.stdout
    rows = [json.loads(line) for line in (desk.folder / "ledger").read_text().splitlines()]
    assert [row["answer"] for row in rows if row["sample"] == query.ids[0]] == [query.suggestions[0]]


def test_undo_corrects_the_last_answer_and_the_one_before(desk: Desk) -> None:
    answers = desk.typed()
    mistaken = [answers[0], "oops", answers[1], "z", "z", answers[1]]  # back over a right answer to a wrong one
    typed = ["z", answers[0], "wrong", "z", answers[1], *answers[2:]]
    ledger = desk.folder / "ledger.jsonl"
    result = done(*desk.adapt, "--ledger", ledger, input=lines(*typed, ""))
    assert "nothing was answered before" in result.stdout
    assert "answered wrong" in result.stdout
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert [row["answer"] for row in rows] == answers
    assert rows[1]["corrected"] == "wrong"
    assert "wrong" not in Agent.load(desk.next).classes_.tolist()
    again = (*desk.adapt[:4], desk.folder / "again", *desk.adapt[5:], "--ledger", ledger)
    done(*again, input=lines(*mistaken, "q"))
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert [row["answer"] for row in rows[:3]] == [answers[0], answers[1], answers[1]]


def test_enter_keeps_an_answer_that_one_went_back_to(desk: Desk) -> None:
    answers = desk.typed()
    ledger = desk.folder / "ledger.jsonl"
    result = done(*desk.adapt, "--ledger", ledger, input=lines("u", "z", "", answers[1], "z", "", "q"))
    assert "answered cannot tell" in result.stdout
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["skipped"] is True
    assert rows[1]["answer"] == answers[1]


def test_the_last_answer_can_still_be_corrected(desk: Desk) -> None:
    answers = desk.typed()
    done(*desk.adapt, "--task", desk.folder / "t", input=lines(*answers[:-1], "typo", "q"))
    command = (*desk.adapt, "--task", desk.folder / "t")
    result = done(*command, input=lines("z", answers[-1], *answers, ""))
    assert "No more questions" in result.stdout
    assert "typo" not in Agent.load(desk.next).classes_.tolist()


def test_people_are_told_whether_another_question_is_worth_it(desk: Desk, world: World) -> None:
    task = world.adapt(Agent.load(desk.agent))
    outlooks: list[str] = []
    while query := task.ask():
        outlooks.append(str(task.outlook))
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    outlooks.append(str(task.outlook))
    shown = done(*desk.adapt, input=lines(*desk.typed(), "")).stdout
    assert [line for line in shown.splitlines() if line.startswith("About")] == outlooks
    assert f"outlook        {outlooks[-1]}" in shown


def test_people_are_told_of_names_that_are_probably_one_class(tmp_path: Path, world: World) -> None:
    desk = Desk(tmp_path, world.with_second_name("owl", "Eule"))
    task = desk.world.answer_all(desk.world.adapt(Agent.load(desk.agent), 20))
    (merge,) = task.merges()
    command = (*desk.adapt[:-1], 20)
    shown = done(*command, "--labels", desk.answers, "--only-asked").stdout
    assert " ".join(str(merge).split()) in " ".join(shown.split())
    assert "correct the answers and adapt the old agent again" in shown
    typed = [row["answer"] for row in task.ledger]
    before, _, after = done(*command, "--force", input=lines(*typed, "")).stdout.partition("No more questions")
    assert '"Eule"' in before
    assert '"Eule"' in after


def test_whoever_is_done_is_asked_no_more(desk: Desk) -> None:
    answers = desk.typed(until=2)
    shown = done(*desk.adapt, input=lines(*answers, "d", "")).stdout
    assert "2 of 8" in shown
    assert Agent.load(desk.next).history[0]["labels_used"] == 2


def test_keys_are_explained_and_can_be_names(desk: Desk) -> None:
    ledger = desk.folder / "ledger.jsonl"
    result = done(*desk.adapt, "--ledger", ledger, input=lines("?", "=u", "?", "u", "=q", "q"))
    assert "Known: cat, dog" in result.stdout
    assert "New: u" in result.stdout
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert [row["answer"] for row in rows[:3]] == ["u", None, "q"]
    assert [row["skipped"] for row in rows[:3]] == [False, True, False]


def test_a_question_that_is_passed_on_comes_again_after_the_others(desk: Desk) -> None:
    answers = desk.typed()
    first_round = [row["sample"] for row in _asked_first(desk)]
    ledger = desk.folder / "ledger.jsonl"
    n = len(first_round)
    typed = ["p", *answers[1:n], answers[0], *answers[n:]]
    result = done(*desk.adapt, "--ledger", ledger, input=lines(*typed, ""))
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert [row["answer"] for row in rows] == answers
    assert max(row["told_at"] for row in rows[:n]) == rows[0]["told_at"]
    assert result.stdout.count(f"{first_round[0]}  score") == 2
    earlier_key = (*desk.adapt, "--force", "--task", desk.folder / "other")
    assert "u says that you cannot tell, p passes it on" in done(*earlier_key, input="s\nq\n").stdout


def _asked_first(desk: Desk) -> list[dict[str, object]]:
    """What the first round asks about."""
    other = desk.folder / "look.jsonl"
    done(*desk.adapt, "--task", desk.folder / "look", "--ledger", other, input="q\n")
    return [json.loads(line) for line in other.read_text(encoding="utf-8").splitlines()]


def test_a_label_of_the_wrong_type_is_asked_again(tmp_path: Path, world: World) -> None:
    desk = Numbered(tmp_path, world)
    result = done(*desk.adapt, input=lines("owl", "2", "q"))
    assert "'owl' is not a whole number" in result.stdout
    assert "new class 2" in result.stdout
    assert "1 answer kept" in result.stderr


def test_names_that_look_like_markup_are_shown_as_they_are(desk: Desk) -> None:
    result = done(*desk.adapt, input=lines("[red]owl[/red]", "z", "q"))
    assert "new class [red]owl[/red]" in result.stdout
    assert "answered [red]owl[/red]" in result.stdout


def test_a_task_of_other_inputs_is_refused(desk: Desk, world: World) -> None:
    kept = desk.folder / "kept"
    done(*desk.adapt, "--task", kept, input=lines("owl", "q"))
    other, changed = desk.folder / "other", desk.folder / "changed.npz"
    done("fit", desk.first, "-o", other, "--seed", 1, *SMALL)
    np.savez(changed, X=world.pool + 1, ids=np.array(world.ids))
    rest = ("-o", desk.next, "--task", kept, "--budget")
    assert "of another agent" in refused("adapt", other, desk.pool, *rest, BUDGET)
    assert "of another pool" in refused("adapt", desk.agent, changed, *rest, BUDGET)
    assert "8 labels, not 7" in refused("adapt", desk.agent, desk.pool, *rest, 7)
    assert "1 of 8 labels used" in done("adapt", desk.agent, desk.pool, *rest, 8, input="q\n").stderr


def test_a_task_of_an_earlier_release_is_not_overwritten(desk: Desk) -> None:
    kept = desk.folder / "kept"
    done(*desk.adapt, "--task", kept, input=lines("owl", "q"))
    (kept / "journal.jsonl").unlink()
    (kept / earlier.STATE).write_text("of an earlier release, and damaged")
    assert earlier.STATE in refused(*desk.adapt, "--task", kept)
    assert (kept / earlier.STATE).read_text() == "of an earlier release, and damaged"


def test_an_interrupt_is_saved(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(desk.typed(until=2))

    def type_or_interrupt(*_: object, **__: object) -> str:
        for answer in typed:
            return answer
        raise KeyboardInterrupt

    monkeypatch.setattr("cual.cli.questions.out.input", type_or_interrupt)
    interrupted = cual(*desk.adapt)
    assert interrupted.exit_code == 130
    assert "2 answers kept" in interrupted.stderr


# -- predict and info ------------------------------------------------------------------------------------------


def test_predict_writes_what_the_agent_says(desk: Desk, world: World) -> None:
    file = desk.folder / "out.csv"
    assert "70 samples" in done("predict", desk.agent, desk.pool, "-o", file).stdout
    rows = list(csv.DictReader(file.open(encoding="utf-8")))
    agent = Agent.load(desk.agent)
    assert [row["id"] for row in rows] == world.ids
    assert [row["label"] for row in rows] == agent.predict(world.pool).tolist()
    probabilities = agent.predict_proba(world.pool).max(axis=1)
    np.testing.assert_allclose([float(row["probability"]) for row in rows], probabilities, rtol=1e-4)
    novelty = agent.novelty(world.pool)
    np.testing.assert_allclose([float(row["novelty"]) for row in rows], novelty, rtol=1e-4)
    assert [row["novel"] for row in rows] == [str(int(s > agent.threshold.value)) for s in novelty]
    assert {row["novel"] for row in rows} == {"0", "1"}
    assert "--force" in refused("predict", desk.agent, desk.pool, "-o", file)


def test_predict_without_a_file_prints_nothing_but_the_table(desk: Desk, world: World) -> None:
    result = done("predict", desk.agent, desk.first)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["id"] for row in rows] == [str(i) for i in range(len(world.X))]


def test_predict_without_a_threshold_leaves_novel_empty(desk: Desk, world: World) -> None:
    np.savez(desk.first, X=world.X[:2], y=np.array(["cat", "cat"]))
    done("fit", desk.first, "-o", desk.next, *SMALL)
    result = done("predict", desk.next, desk.pool)
    assert "the column novel stays empty" in result.stderr
    assert {row["novel"] for row in csv.DictReader(io.StringIO(result.stdout))} == {""}


def test_predict_refuses_features_of_another_width(desk: Desk, world: World) -> None:
    np.savez(desk.pool, X=world.pool[:, :3])
    assert "3 wide, but the agent's features are 16 wide" in refused("predict", desk.agent, desk.pool)


def test_info_shows_classes_method_and_history(desk: Desk) -> None:
    done(*desk.adapt, "--labels", desk.answers)
    first, second = done("info", desk.agent).stdout, done("info", desk.next).stdout
    assert "cat, dog" in first
    assert "cual" in first
    assert "nothing lies" not in first
    history = Agent.load(desk.next).history[0]
    assert "owl" in second
    assert f"{history['labels_used']} of {BUDGET}" in second
    assert history["ended"] in second


# -- bench, demo and the rest ----------------------------------------------------------------------------------


def test_bench_run_writes_results_and_report_reads_them(desk: Desk, world: World, tmp_path: Path) -> None:
    file, results = tmp_path / "all.npz", tmp_path / "results"
    labels = [*world.y, *world.truth.values()]
    np.savez(file, X=np.concatenate([world.X, world.pool]), y=np.array(labels))
    flags = ("--methods", "cual,er-random", "--first", 2, "--increment", 1, "--budget", "0.2", "--seeds", "0,1")
    run = ("bench", "run", "--features", file, *flags, *QUICK, "--out", results)
    shown = done(*run)
    rows = [json.loads(line) for line in (results / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 2 * 2 * 2
    assert {row["method"] for row in rows} == {"cual", "er-random"}
    assert "8/8 all er-random seed 1 task 2" in shown.stderr
    summary = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["cual"]["seeds"]) == {"0", "1"}
    assert "er-random" in done("bench", "report", results).stdout
    assert (results / "report" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of --features, --preset and --config"),
        (("--features", "digits", "--preset", "smoke"), "one of --features"),
        (("--features", "nothing.npz"), "nothing.npz is missing"),
        (("--features", "digits", "--seeds", "a"), "--seeds takes whole numbers"),
        (("--features", "digits", "--methods", "magic"), "no method is called 'magic'"),
        (("--preset", "magic"), "no preset is called 'magic'"),
        (("--preset", "smoke", "--only", "birds"), "no run is called like 'birds'; there are digits"),
    ],
)
def test_bench_run_refuses_what_it_cannot_run(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refused("bench", "run", "--out", tmp_path / "results", *arguments)


def test_demo_prints_a_table_and_names_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cual.bench import demo

    quick = {"head": {"hidden": 16, "epochs": 1}}
    setting = replace(demo.SETTING, methods=("cual", "er-random"), seeds=(0,), first=8, options=quick)
    run_demo = demo.run_demo
    monkeypatch.setattr(demo, "run_demo", lambda out, progress: run_demo(out, progress, setting))
    shown = done("demo", "--out", tmp_path).stdout
    assert "er-random" in shown
    assert (tmp_path / "demo.html").exists()
    assert "demo.html" in shown


def test_every_command_teaches_by_example() -> None:
    overview = done("--help").stdout
    commands = ("fit", "adapt", "predict", "info", "teach", "rename", "merge", "remove", "forget", "demo")
    for command in (*commands, "bench run", "bench report"):
        assert command.split()[0] in overview
        shown = done(*command.split(), "--help").stdout.splitlines()
        assert any(f"cual {command}" in line and "Usage" not in line for line in shown)


def test_the_installed_command_works(desk: Desk) -> None:
    program = Path(sys.executable).with_name("cual")
    answered = [program, *map(str, desk.adapt), "--labels", desk.answers]
    first = subprocess.run(answered, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    assert "new classes" in first.stdout
    again = subprocess.run(answered, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert again.stderr == f"{desk.next} exists; --force replaces it, or give another name\n"

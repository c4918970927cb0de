"""Runs on small data in this process: what rows hold, that only paid labels are seen."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cual.bench.folder import RunFolder, read_rows
from cual.bench.jobs import Progress, run
from cual.bench.results import grouped
from cual.bench.rows import Truth, round_rows
from cual.bench.runner import Data, fit_first, load, walk
from cual.bench.settings import Setting
from cual.data.table import Table
from cual.errors import BadFile, BadOption, DamagedFile, FolderInUse, ForeignFile, UnknownName
from cual.loop.rounds import Round
from cual.uncertainty import Threshold

CONTRACT = {
    "dataset", "method", "seed", "task", "accuracy", "pool_size", "labels_used", "novel_queried",
    "pseudo_labels", "pseudo_label_accuracy", "classes_known", "classes_missed", "seconds",
}  # fmt: skip


def steps(setting: Setting, method: str, seed: int, data: Data):
    agent = fit_first(setting, method, seed, data, data.stream(setting, seed))
    return list(walk(setting, method, seed, data, agent))


def test_one_row_per_task_with_the_fields_of_the_contract(whole):
    rows = read_rows(whole / "results.jsonl")
    assert [(r["method"], r["seed"], r["task"]) for r in rows] == [
        (m, s, t) for s in (0, 1) for m in ("cual", "er-random") for t in range(1, 6)
    ]
    for row in rows:
        assert set(row) >= CONTRACT
        assert row["dataset"] == "blobs"
        assert row["labels_used"] <= row["labels_budgeted"] == round(0.1 * row["pool_size"])
        assert row["labels_used"] == sum(row["labels_by_zone"].values())
        assert row["novel_queried"] <= row["labels_used"]
        assert row["classes_known"] + row["classes_missed"] == row["task"] + 2
        assert row["accuracy"] == pytest.approx(np.mean(list(row["per_class"].values())))
        assert all(row["per_class"][c] == 0 for c in row["missed"])
    assert {r["task"] for r in rows if "confusion" in r} == {5}
    assert {r["task"] for r in rows if "per_class_before" in r} == {1}


def test_summary_averages_the_rows(whole):
    rows = read_rows(whole / "results.jsonl")
    summary = json.loads((whole / "summary.json").read_text())
    for method in ("cual", "er-random"):
        means = [
            np.mean([r["accuracy"] for r in rows if (r["method"], r["seed"]) == (method, s)]) for s in (0, 1)
        ]
        assert summary[method]["seeds"] == {"0": pytest.approx(means[0]), "1": pytest.approx(means[1])}
        assert summary[method]["mean"] == pytest.approx(np.mean(means))
        assert summary[method]["std"] == pytest.approx(abs(means[0] - means[1]) / np.sqrt(2))


def test_run_json_says_what_was_run(whole, blobs, setting):
    held = json.loads((whole / "run.json").read_text())
    assert held["features_sha256"] == blobs.sha256()
    assert held["setting"] == setting.to_json()
    assert {"cual", "python", "numpy", "torch"} <= set(held["versions"])


def test_measures_of_a_task_against_the_true_labels(setting):
    data = load(setting.features)
    known, seen = set(data.truth.classes(data.stream(setting, 0).introduced(0))), 0
    for step in steps(setting, "cual", 0, data):
        truth = {int(r): data.truth.labels[r].item() for r in step.task.rows}
        new = set(truth.values()) - known
        known = set(step.agent.classes_.tolist())
        classes = data.truth.classes([*step.task.old, *step.task.new])
        assert set(step.row["missed"]) == set(classes) - known
        asked = step.adaptation.answers
        assert step.row["novel_queried"] == sum(truth[s] in new for s in asked)
        believed = step.adaptation.pseudo_labels
        right = sum(truth[s] == label for s, label in believed.items())
        assert step.row["pseudo_labels"] == len(believed)
        if not believed:
            assert step.row["pseudo_label_accuracy"] is None
            continue
        seen += 1
        assert step.row["pseudo_label_accuracy"] == right / len(believed)
        last = step.row["iterations"][-1]
        assert last["pseudo_labels"] == len(believed)
        assert last["precision"] == right / len(believed)
        assert last["recall"] == right / sum(label in new for label in truth.values())
    assert seen >= 3


def test_a_right_pseudo_label_of_an_old_class_reaches_no_novel_sample():
    rows, labels = np.array([10, 11, 12, 13]), np.array([0, 1, 1, 1])
    round_ = Round(0, np.arange(4), np.arange(4.0), np.array([0, 1, 1, 0]), Threshold(0.5, 0.0, 0.2))
    round_.pseudo_rows, round_.pseudo_classes = np.arange(4), round_.classes
    believed = dict(zip(rows.tolist(), round_.classes.tolist(), strict=True))
    (row,) = round_rows(SimpleNamespace(rounds=[round_]), rows, labels, labels == 1, believed)
    assert (row["precision"], row["recall"]) == (3 / 4, 2 / 3)


@pytest.mark.parametrize("method", ["cual", "er-entropy"])
def test_only_paid_labels_are_seen(setting, method):
    """With every unpaid label of the pools poisoned, the agents and what they ask stay the same."""
    data = load(setting.features)
    clean = steps(setting, method, 0, data)
    pools = np.concatenate([s.task.rows for s in clean])
    paid = [sample for s in clean for sample in s.adaptation.answers]
    poisoned = data.truth.labels.copy()
    unpaid = np.setdiff1d(pools, paid)
    poisoned[unpaid] = "kind a"
    assert (poisoned != data.truth.labels).sum() > 50
    again = steps(setting, method, 0, Data(data.features, replace(data.truth, labels=poisoned)))
    for one, two in zip(clean, again, strict=True):
        assert one.adaptation.answers == two.adaptation.answers
        assert one.row["per_class"] == two.row["per_class"]
        np.testing.assert_array_equal(
            one.agent.predict_proba(data.features.X), two.agent.predict_proba(data.features.X)
        )


def test_noise_reaches_the_learner_but_not_the_oracle(setting):
    data = load(setting.features)
    noisy = replace(setting, wrong=0.5, skip=0.2)
    for method, disturbed in (("cual", True), ("oracle", False)):
        ran = steps(noisy, method, 0, data)
        told = [(data.truth.labels[s].item(), a) for step in ran for s, a in step.adaptation.answers.items()]
        assert any(truth != answer for truth, answer in told) is disturbed
        assert any(step.row["labels_skipped"] for step in ran) is disturbed


def test_a_wrong_answer_about_a_new_class_names_another_new_one(setting):
    data = load(setting.features)
    confused = replace(setting, increment=2, budget=0.5, wrong=0.5, wrong_among_new=True)
    *two_new, one_new = steps(confused, "er-random", 0, data)
    for step in (*two_new, one_new):
        new = data.truth.classes(step.task.new)
        answers = [(data.truth.labels[s].item(), answer) for s, answer in step.adaptation.answers.items()]
        wrong = [answer for truth, answer in answers if truth in new and truth != answer]
        assert wrong
        assert all((answer in new) is (step is not one_new) for answer in wrong)


@pytest.mark.parametrize("numbers", [False, True])
def test_a_second_name_is_the_same_class_to_every_measure(setting, blobs, numbers):
    table = Table(blobs.X, blobs.y, class_names=None if numbers else blobs.class_names)
    data = Data(table, Truth.of(table))
    second = replace(setting, synonyms=1.0, budget=0.3)
    plain = steps(replace(setting, budget=0.3), "er-random", 0, data)
    named = steps(second, "er-random", 0, data)
    first = data.truth.classes(data.stream(setting, 0).introduced(0))
    for one, two in zip(plain, named, strict=True):
        assert set(two.agent.classes_.tolist()) - set(first) == {
            name for name in two.agent.classes_.tolist() if name not in data.truth.names
        }
        assert two.row["classes_known"] == one.row["classes_known"]
        assert two.row["missed"] == one.row["missed"]
        assert two.row["novel_in_pool"] == one.row["novel_in_pool"]
        assert list(two.row["per_class"]) == list(one.row["per_class"])
        new = data.truth.classes(two.task.new)
        assert all(two.row["per_class"][str(c)] > 0 for c in new if str(c) not in two.row["missed"])


def test_pseudo_labels_by_a_second_name_are_right(setting):
    data = load(setting.features)
    for step in steps(replace(setting, synonyms=1.0), "cual", 0, data):
        believed = step.adaptation.pseudo_labels
        right = [data.truth.first_names([label])[0] == data.truth.labels[s] for s, label in believed.items()]
        assert step.row["pseudo_label_accuracy"] == (np.mean(right) if right else None)
        assert not right or step.row["iterations"][-1]["precision"] == np.mean(right)


def test_running_again_repeats_nothing(setting, whole):
    before = (whole / "results.jsonl").read_bytes()
    told: list[Progress] = []
    run(setting, whole, progress=told.append)
    assert (whole / "results.jsonl").read_bytes() == before
    assert [(p.done, p.total, p.row) for p in told] == [(20, 20, None)]


@pytest.mark.parametrize(
    "change", [{"budget": 0.2}, {"seeds": (0, 1, 2)}, {"methods": ("cual",)}, {"wrong": 0.1}, {"options": {}}]
)
def test_another_run_does_not_mix_into_a_folder(setting, whole, change):
    before = (whole / "results.jsonl").read_bytes()
    name = next(iter(change))
    with pytest.raises(BadOption, match=rf"holds another run: {name} is .* there, .* here"):
        run(replace(setting, **change), whole)
    assert (whole / "results.jsonl").read_bytes() == before


def test_other_features_of_the_same_name_do_not_mix(setting, whole, blobs, tmp_path):
    from cual.data.files import write

    other = tmp_path / "blobs.npz"
    write(other, Table(blobs.X + 1, blobs.y, class_names=blobs.class_names))
    with pytest.raises(BadOption, match="features_sha256"):
        run(replace(setting, features=str(other)), whole)


def test_a_folder_in_use_is_refused(setting, whole, blobs):
    with (
        RunFolder(whole).claimed(setting, blobs.sha256()),
        pytest.raises(FolderInUse, match="being used by process"),
    ):
        run(setting, whole)
    run(setting, whole)  # free again


def test_what_a_killed_run_left_unfinished_is_dropped_and_done_again(setting, tmp_path):
    one = replace(setting, seeds=(0,), methods=("er-random",))
    run(one, tmp_path)
    lines = (tmp_path / "results.jsonl").read_bytes().splitlines(keepends=True)
    folder = RunFolder(tmp_path)
    (tmp_path / "results.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:40])
    assert len(folder.rows()) == 4
    unfinished = [tmp_path / ".summary.json.x", tmp_path / "state" / ".er-random-seed0-task5.safetensors.x"]
    for file in unfinished:
        file.write_bytes(b"half")
    agent = steps(one, "er-random", 0, load(one.features))[3].agent
    folder.save_agent(agent, "er-random", 0, 4)
    run(one, tmp_path)
    again = (tmp_path / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert again[:4] == lines[:4]
    assert len(again) == 5
    assert not any(file.exists() for file in unfinished)
    assert json.loads(again[4])["accuracy"] == json.loads(lines[4])["accuracy"]


def test_a_folder_from_before_a_field_was_there_goes_on(setting, whole, tmp_path):
    one = replace(setting, seeds=(0,), methods=("er-random",))
    run(one, tmp_path)
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    added = ("natural", "imbalance", "wrong_among_new", "synonyms")

    def earlier(row: dict) -> dict:
        return {name: value for name, value in row.items() if name not in added}

    told = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(told | {"setting": earlier(told["setting"])}))
    (tmp_path / "results.jsonl").write_text(
        "".join(json.dumps(earlier(json.loads(line))) + "\n" for line in lines[:4])
    )
    RunFolder(tmp_path).save_agent(steps(one, "er-random", 0, load(one.features))[3].agent, "er-random", 0, 4)
    run(one, tmp_path)
    rows = read_rows(tmp_path / "results.jsonl")
    assert rows[4]["accuracy"] == json.loads(lines[4])["accuracy"]
    (group,) = grouped(rows)
    assert group.accuracy("er-random").n == 1
    with pytest.raises(BadOption, match="imbalance is None there, 10 here"):
        run(replace(one, imbalance=10), tmp_path)


def test_damaged_and_foreign_folders(setting, tmp_path):
    (tmp_path / "results.jsonl").write_text('{"method": "cual"}\n')
    with pytest.raises(ForeignFile, match=r"no run\.json"):
        run(setting, tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(DamagedFile, match=r"run\.json is damaged"):
        run(setting, tmp_path)


def test_settings_that_make_no_sense(setting, tmp_path):
    with pytest.raises(UnknownName, match="no method is called 'ent'"):
        replace(setting, methods=("ent",))
    with pytest.raises(BadOption, match="twice"):
        replace(setting, seeds=(1, 1))
    with pytest.raises(BadOption, match="jobs"):
        run(setting, tmp_path, jobs=0)
    with pytest.raises(BadFile, match=r"missing. Make it with\n  cual data get birds"):
        run(replace(setting, features="features/birds.npz", made_by=("cual data get birds",)), tmp_path)
    assert not list(tmp_path.iterdir())


def test_several_settings_go_into_folders_of_their_own(setting, tmp_path):
    one = replace(setting, methods=("er-random",), seeds=(0,))
    folders = run({"two": one, "three": replace(one, increment=3)}, tmp_path)
    assert folders == [tmp_path / "two", tmp_path / "three"]
    assert [len(read_rows(Path(f) / "results.jsonl")) for f in folders] == [5, 2]

"""Upper bounds on digits: which labels they are told, and that their head counts each sample once."""

import json
from collections import Counter

import numpy as np
import pytest

from cual import SKIP
from cual.bench.folder import RunFolder
from cual.bench.jobs import run
from cual.bench.runner import fit_first, load, walk
from cual.bench.settings import DIGITS, Setting

SETTING = Setting(DIGITS, ("oracle-ridge", "oracle-novel"), first=5, budget=0.02, wrong=0.3, skip=0.2)


@pytest.fixture(scope="module")
def data():
    return load(DIGITS)


@pytest.fixture(scope="module")
def streams(data):
    """The steps of each bound."""

    def steps(method):
        agent = fit_first(SETTING, method, 0, data, data.stream(SETTING, 0))
        return list(walk(SETTING, method, 0, data, agent))

    return {method: steps(method) for method in SETTING.methods}


def samples_of(agent) -> dict[str, float]:
    """Samples of each class that an agent was told of: its head learned them, or they are held out."""
    held_out = np.bincount(agent.validation.y.numpy(), minlength=len(agent.classes_))
    return dict(zip(agent.classes_.tolist(), (agent.head.counts.numpy() + held_out).tolist(), strict=True))


@pytest.mark.parametrize("method", SETTING.methods)
def test_a_sample_counts_once_however_often_it_is_shown(streams, data, method):
    stream = data.stream(SETTING, 0)
    told = set(stream.first.tolist())
    shown = list(stream.first)
    for step in streams[method]:
        labels = data.truth.labels[step.task.rows]
        new = np.isin(labels, data.truth.classes(step.task.new))
        rows = step.task.rows if method == "oracle-ridge" else step.task.rows[new]
        shown += rows.tolist()
        assert step.row["labels_used"] == len(set(rows.tolist()) - told)
        assert step.row["labels_used"] + step.row["labels_skipped"] == len(step.task.rows)
        told |= set(rows.tolist())
        assert samples_of(step.agent) == Counter(data.truth.labels[sorted(told)].tolist())
    assert (len(shown) > len(told)) is (method == "oracle-ridge"), "pools show old samples again"


@pytest.mark.parametrize("method", SETTING.methods)
def test_bounds_are_told_the_truth(streams, data, method):
    for step in streams[method]:
        answers = step.adaptation.answers.items()
        assert all(answer in (SKIP, data.truth.labels[sample]) for sample, answer in answers)
        assert step.row["classes_missed"] == 0


def test_a_resumed_bound_ends_as_one_that_was_not_interrupted(streams, tmp_path):
    folder = RunFolder(tmp_path)
    run(SETTING, tmp_path)
    whole = folder.rows()
    done = {method: [row for row in whole if row["method"] == method][:2] for method in SETTING.methods}
    folder.results.write_text("".join(json.dumps(row) + "\n" for rows in done.values() for row in rows))
    for method in SETTING.methods:
        folder.save_agent(streams[method][1].agent, method, 0, 2)
    run(SETTING, tmp_path)
    resumed = {(row["method"], row["task"]): row for row in folder.rows()}
    assert len(resumed) == len(whole)
    for row in whole:
        again = resumed[row["method"], row["task"]]
        assert {k: v for k, v in again.items() if k not in ("seconds", "timings")} == {
            k: v for k, v in row.items() if k not in ("seconds", "timings")
        }

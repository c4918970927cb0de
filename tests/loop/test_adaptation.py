"""The inner loop: what is asked, believed, spent and written down."""

import json

import numpy as np
import pytest
import torch

from cual import SKIP, Adaptation, Agent
from cual.data.pool import Pool
from cual.errors import (
    AlreadyFinished,
    BadLabels,
    BudgetExceeded,
    DamagedFile,
    LabelsMissing,
    UnknownQuery,
    UnknownSample,
)
from worlds import World, file_bytes, make_world


def test_learns_the_novel_classes_and_keeps_the_old(world: World):
    agent = world.agent(head_options={"hidden": 256, "epochs": 40})
    after = world.answer_all(world.adapt(agent, budget=20)).finish()
    assert set(after.classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}
    right = np.mean(after.predict(world.pool) == np.array(list(world.truth.values())))
    assert right > 0.9
    assert after.version == agent.version + 1


def test_first_questions_lie_above_t_inner_and_take_the_first_share(world: World):
    task = world.adapt(budget=10)
    query = task.ask()
    assert query is not None
    assert len(query) == 4  # 40 % of 10
    assert all(score > task.rounds[0].threshold.value for score in query.scores)
    assert set(query.suggestions) <= {None, "cat", "dog"}


def test_later_questions_are_the_most_ambiguous_left(world: World):
    task = world.adapt(budget=10)
    first = task.ask()
    assert first is not None
    task.tell(first.id, {i: world.truth[i] for i in first.ids})
    second = task.ask()
    assert second is not None
    this = task.rounds[1]
    distance = np.abs(this.scores - this.threshold.value)
    chosen = np.isin(this.rows, this.asked)
    assert distance[chosen].max() <= distance[~chosen].min()


@pytest.mark.parametrize("method", ["cual-plus", "cual"])
def test_a_learner_that_believes_last_is_told_when_nobody_will_be_asked_any_more(
    world: World, method: str, monkeypatch: pytest.MonkeyPatch
):
    agent = world.agent(method=method)
    short = type(agent.method.learner.begin(agent, Pool(torch.from_numpy(world.pool))))
    score, told = short.score, list[bool]()

    def noted(self, rows, last=False):
        told.append(last)
        return score(self, rows, last=last)

    monkeypatch.setattr(short, "score", noted)
    task = world.answer_all(world.adapt(agent))
    assert told == [method == "cual-plus" and not len(r.asked) for r in task.rounds]
    assert any(told) == (method == "cual-plus")


def test_each_iteration_believes_alpha_of_what_lies_above_t_inner(world: World):
    task = world.answer_all(world.adapt(world.agent(alpha=0.3)))
    assert any(len(r.pseudo_rows) for r in task.rounds)
    assert len(task.rounds[0].pseudo_rows) == 0  # no novel class is known yet
    for r in task.rounds[1:]:
        open_rows = ~np.isin(r.rows, r.asked)
        above = int(((r.scores > r.threshold.value) & open_rows).sum())
        assert len(r.pseudo_rows) == int(np.ceil(0.3 * above))
        believed = np.isin(r.rows, r.pseudo_rows)
        if 0 < believed.sum() < open_rows.sum():
            assert r.scores[believed].min() >= r.scores[open_rows & ~believed].max()


def test_a_sample_is_asked_or_believed_once(world: World):
    task = world.answer_all(world.adapt(budget=12))
    asked = np.concatenate([r.asked for r in task.rounds])
    believed = np.concatenate([r.pseudo_rows for r in task.rounds])
    every = np.concatenate([asked, believed])
    assert len(np.unique(every)) == len(every)
    assert len(asked) == task.labels_used == 12


def test_a_class_that_appears_late_joins(world: World):
    late = "owl"
    task, seen = world.adapt(world.agent(then="random"), budget=20), False
    while query := task.ask():
        # the first round's owls are skipped, so that the class is met later
        hide = query.iteration == 0
        task.tell(query.id, {i: SKIP if hide and world.truth[i] == late else world.truth[i] for i in query.ids})
        seen = seen or (not hide and any(world.truth[i] == late for i in query.ids))
    assert seen, "this world must ask about the late class again"
    after = task.finish()
    assert late in after.classes_
    assert list(after.classes_).index(late) > list(after.classes_).index("Füchsin mit Schal")


def test_a_query_is_told_in_parts(world: World):
    task = world.adapt()
    query = task.ask()
    assert query is not None
    one, *rest = query.ids
    task.tell(query.id, {one: world.truth[one]})
    again = task.ask()
    assert again is not None
    assert (again.id, again.ids) == (query.id, tuple(rest))
    with pytest.raises(LabelsMissing, match=f"{len(rest)} answers"):
        task.finish()


def test_ledger_says_what_was_asked_when_and_answered(world: World):
    task = world.answer_all(world.adapt())
    rows = json.loads(json.dumps(task.ledger))
    assert len(rows) == task.labels_used
    for row in rows:
        assert row["answer"] == world.truth[row["sample"]]
        assert row["charged"] == 1
        assert row["zone"] in {"old", "ambiguous", "novel"}
        assert row["asked_at"] <= row["told_at"]
        r = task.rounds[row["iteration"]]
        assert row["score"] == r.scores[list(r.rows).index(world.ids.index(row["sample"]))]


def test_history_counts_add_up(world: World):
    task = world.answer_all(world.adapt())
    history = json.loads(json.dumps(task.history))
    assert [row["iteration"] for row in history] == list(range(len(history)))
    for row in history:
        assert sum(row["zones"].values()) == row["scored"] == sum(row["histogram"]["counts"])
    assert sum(row["asked"] for row in history) == task.labels_used


def test_skips_cost_nothing_and_are_not_asked_again(world: World):
    task = world.adapt(budget=6)
    skipped: set[object] = set()
    while query := task.ask():
        assert not skipped & set(query.ids)
        skip = query.ids[0]
        skipped.add(skip)
        task.tell(query.id, {i: SKIP if i == skip else world.truth[i] for i in query.ids})
    assert task.labels_used == task.outcome["labels_used"] <= 6
    assert task.outcome["skipped"] == len(skipped)
    assert task.outcome["unspent"] == 6 - task.labels_used
    assert not skipped & set(task.pseudo_labels)


def test_repeating_an_answer_charges_once_and_a_correction_replaces(world: World):
    task = world.adapt()
    query = task.ask()
    assert query is not None
    sample = query.ids[0]
    for _ in range(3):
        task.tell(query.id, {sample: "owl"})
    assert task.labels_used == 1
    task.tell(query.id, {sample: "heron"})
    assert task.labels_used == 1
    assert task.answers[sample] == "heron"
    assert task.ledger[0]["corrected"] == "owl"
    assert [row["event"] for row in task.journal] == ["begun", "asked", "told", "corrected"]
    task.tell(query.id, {sample: SKIP})
    assert task.labels_used == 0


def test_a_corrected_typo_leaves_no_class_behind(world: World):
    task, asked = world.adapt(budget=20), []
    while "owll" not in task.pseudo_labels.values():
        query = task.ask()
        assert query is not None
        asked.append(query)
        typo = {"owl": "owll"}
        task.tell(query.id, {i: typo.get(world.truth[i], world.truth[i]) for i in query.ids})
    for query in asked:
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    assert "owll" not in task.pseudo_labels.values()
    after = world.answer_all(task).finish()
    assert set(after.classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}
    assert len(after.models) == after.head.n_classes == 4


def test_an_answer_in_place_of_a_skip_needs_budget(world: World):
    task = world.adapt(budget=4)
    query = task.ask()
    assert query is not None
    skipped = query.ids[0]
    task.tell(query.id, {i: SKIP if i == skipped else world.truth[i] for i in query.ids})
    world.answer_all(task)
    assert task.labels_used == 4
    with pytest.raises(BudgetExceeded):
        task.tell(query.id, {skipped: "owl"})
    assert task.labels_used == 4
    assert task.answers[skipped] is SKIP


def test_errors_name_what_was_wrong_and_change_nothing(world: World):
    task = world.adapt()
    query = task.ask()
    assert query is not None
    before = task.journal
    with pytest.raises(UnknownQuery, match="q7"):
        task.tell("q7", {query.ids[0]: "owl"})
    stranger = next(i for i in world.ids if i not in query.ids)
    with pytest.raises(UnknownSample, match=stranger):
        task.tell(query.id, {query.ids[0]: "owl", stranger: "owl"})
    for bad in (3, 2.5, None, "", ["owl"]):
        with pytest.raises(BadLabels):
            task.tell(query.id, {query.ids[0]: bad})
    assert task.journal == before


def test_stop_asks_no_more_and_still_finishes(world: World):
    task = world.adapt(budget=20)
    query = task.ask()
    assert query is not None
    task.tell(query.id, {i: world.truth[i] for i in query.ids})
    assert task.ask() is not None
    task.stop()
    assert task.ask() is None
    after = task.finish()
    assert task.outcome["labels_used"] == len(query)
    assert len(task.pseudo_labels) > 0
    assert len(after.classes_) > 2


def test_finished_is_final(world: World):
    task = world.answer_all(world.adapt())
    after = task.finish()
    assert task.finish() is after
    assert task.ask() is None
    with pytest.raises(AlreadyFinished):
        task.tell("q0", {})


def test_nothing_novel_ends_with_a_clear_outcome():
    world = make_world(novel=())
    agent = world.agent()
    task = world.answer_all(world.adapt(agent))
    after = task.finish()
    assert task.outcome["new_classes"] == []
    assert after.classes_.tolist() == agent.classes_.tolist()
    assert after.version == 1
    np.testing.assert_array_equal(after.predict_proba(world.pool), agent.predict_proba(world.pool))


def test_all_novel():
    world = make_world(old=0)
    task = world.answer_all(world.adapt())
    assert set(task.finish().classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}


def test_the_old_agent_is_untouched(world: World, tmp_path):
    agent = world.agent()
    before = file_bytes(agent, tmp_path)
    world.answer_all(world.adapt(agent)).finish()
    assert file_bytes(agent, tmp_path) == before


def test_two_adaptations_in_a_row(world: World):
    agent = world.answer_all(world.adapt(budget=20)).finish()
    task = world.answer_all(world.adapt(agent, budget=20))
    after = task.finish()
    assert after.version == 2
    assert [row["version"] for row in after.history] == [1, 2]
    assert task.outcome["new_classes"] == []


@pytest.mark.parametrize("name", ["journal.jsonl", "pool.safetensors", "agent.safetensors"])
def test_a_damaged_file_is_named(world: World, name: str, tmp_path):
    task = world.adapt()
    task.ask()
    task.save(tmp_path / "task")
    file = tmp_path / "task" / name
    file.write_bytes(file.read_bytes().replace(b'"event"', b'"evnt"')[:-50] + b"}\n")
    with pytest.raises(DamagedFile, match=name.replace(".", r"\.")):
        Adaptation.load(tmp_path / "task")


@pytest.mark.parametrize("score", ["novelty", "entropy", "margin"])
def test_old_answers_join_replay(world: World, score: str):
    agent = world.agent(score=score, first="random", then="random", buffer=500, ends_below_threshold=False)
    task = world.answer_all(world.adapt(agent, budget=30))
    after = task.finish()
    old = [i for i, a in task.answers.items() if a in ("cat", "dog")]
    assert old
    stored = after.replay.X.numpy()
    for sample in old:
        row = world.pool[world.ids.index(str(sample))]
        assert (stored == row).all(axis=1).any()


def test_validation_is_never_trained_on(world: World):
    after: Agent = world.answer_all(world.adapt(world.agent(buffer=1000), budget=12)).finish()
    assert len(after.validation) > len(world.agent().validation)
    trained = {row.tobytes() for row in after.replay.X.numpy()}
    assert not trained & {row.tobytes() for row in after.validation.X.numpy()}

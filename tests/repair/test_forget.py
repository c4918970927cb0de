"""Forgetting: after it, an agent is the one that never saw the samples, and its file holds nothing of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from cual import Agent
from cual.data.labels import SKIP
from cual.errors import BadFeatures, BadLabels, BadOption, Conflict, SamplesMissing, UnknownSample
from cual.learned import Learned, marks_of
from repair.labelled import Labelled, assert_same, draw, fitted, logits
from worlds import World

FIRST = draw(1).of("cat", "dog")
MORE = draw(2)
TEST = draw(3).X
AGENT = fitted(FIRST)
TAUGHT = AGENT.teach(MORE.X, MORE.y)


@given(st.integers(0, 1000), st.integers(1, 15))
@settings(max_examples=30, deadline=None)
def test_an_agent_that_forgets_is_the_one_that_never_saw_it(seed: int, n: int):
    more = draw(seed)
    gone = np.zeros(len(more.y), np.bool_)
    gone[np.random.default_rng(seed).permutation(len(gone))[:n]] = True
    agent = AGENT.teach(more.X, more.y).forget(more.X[gone])
    assert_same(agent, AGENT.teach(more.X[~gone], more.y[~gone]), TEST)
    assert (agent.version, agent.history[-1]["samples"], agent.history[-1]["how"]) == (2, n, "exact")


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_samples_of_the_first_lesson_are_forgotten_from_head_memory_and_record(seed: int):
    first = draw(seed).of("cat", "dog", "owl")
    agent = fitted(first)
    gone = np.random.default_rng(seed).permutation(len(first.y))[:5]
    after = agent.forget(first.X[gone])
    left = {x.tobytes() for x in np.delete(first.X, gone, axis=0)}
    held = [x.tobytes() for x in torch.cat([after.replay.X, after.validation.X]).numpy()]
    assert set(held) == left
    counts = torch.bincount(after.replay.y, minlength=3)
    torch.testing.assert_close(after.head.counts, counts.double(), rtol=0, atol=1e-9)
    assert len(after.learned) == len(after.replay)


def test_everything_of_a_class_forgotten_is_the_class_forgotten(caplog: pytest.LogCaptureFixture):
    owls = MORE.of("owl")
    agent = TAUGHT.forget(owls.X)
    assert_same(agent, TAUGHT.remove_class("owl"), TEST)
    assert agent.history[-1]["removed_classes"] == ["owl"]
    assert "'owl' had no other samples" in caplog.text


def test_forgetting_twice_or_what_was_never_seen_is_refused():
    agent = TAUGHT.forget(MORE.X[:3])
    with pytest.raises(UnknownSample, match="row 0 and 2 more: not learned, or taken back already"):
        agent.forget(MORE.X[:3])
    with pytest.raises(UnknownSample, match="sample 'x'"):
        agent.forget(MORE.X[[4, 0]], ids=["w", "x"])
    with pytest.raises(UnknownSample):
        agent.forget(np.nextafter(MORE.X[4:5], np.inf))
    with pytest.raises(BadFeatures, match="no samples"):
        agent.forget(MORE.X[:0])
    with pytest.raises(BadLabels, match="row 0 was learned as 'cat', not as 'dog'"):
        TAUGHT.forget(MORE.X[learned_row() : learned_row() + 1], ["dog"])


def learned_row() -> int:
    """The first taught sample that was not held out."""
    held = {x.tobytes() for x in TAUGHT.validation.X.numpy()}
    return next(row for row, x in enumerate(MORE.X) if x.tobytes() not in held)


# -- no trace --------------------------------------------------------------------------------------------------


def traces(agent: Agent, x: np.ndarray, words: list[str], folder) -> list[str]:
    """Where a saved agent holds a sample: its features in any precision, as rows or anywhere, or words."""
    agent.save(folder / "agent")
    data = (folder / "agent").read_bytes()
    found = [word for word in words if word.encode() in data]
    with safe_open(folder / "agent", framework="pt") as file:
        body = json.dumps(json.loads(file.metadata()["cual"]))
        found += [word for word in words if word in body]
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for kind in (np.float16, np.float32, np.float64):
        if x.astype(kind).tobytes() in data:
            found.append(f"{kind.__name__} bytes")
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and tensor.shape[1] == len(x) and len(tensor):
            near = (tensor.double() - torch.from_numpy(x.astype(np.float64))).abs().amax(dim=1)
            if bool((near < 1e-2 * np.abs(x).max()).any()):
                found.append(name)
        alike = tensor.ndim == 1 and tensor.shape == x.shape
        if alike and float((tensor.double() - torch.from_numpy(x.astype(np.float64))).abs().max()) < 1e-2:
            found.append(name)
    return found


@pytest.mark.parametrize(
    ("method", "uncertainty"),
    [
        ("cual-plus", None),
        ("er-entropy", None),
        ("ccic", None),
        ("cual", "fre"),
        ("cual", "knn"),
        ("cual", "mahalanobis"),
    ],
)
def test_nothing_of_a_forgotten_sample_is_in_the_file(method: str, uncertainty: str | None, tmp_path):
    options = {} if uncertainty is None else {"learner": {"uncertainty": uncertainty}}
    first = draw(1)
    agent = fitted(first, method=method, **options)
    for x in (first.X[3], agent.validation.X[0].numpy()):  # one that was learned, one that was held out
        assert traces(agent, x, [], tmp_path)
        assert traces(agent.forget(x[None], ids=["secret-id.jpg"]), x, ["secret-id"], tmp_path) == []


def test_what_stays_unexplained_is_forgotten_too(world: World, tmp_path):
    agent = world.agent(method="cual-plus")
    task = agent.adapt(world.pool, budget=1, ids=world.ids)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "cat"))
    after = task.finish()
    rows = {tuple(x): row for row, x in enumerate(world.pool.astype(np.float16).tolist())}
    row = rows[tuple(after.unexplained[0].tolist())]
    assert traces(after, world.pool[row], [], tmp_path)
    forgotten = after.forget(world.pool[row : row + 1])
    assert len(forgotten.unexplained) == len(after.unexplained) - 1
    assert traces(forgotten, world.pool[row], [], tmp_path) == []


def test_the_centre_of_the_sums_forgets_as_well():
    """It was the mean of the first lesson: of two samples, that would tell one by the other."""
    two = Labelled(draw(1).X[[0, 12]], np.array(["cat", "dog"]))
    agent = fitted(two).forget(two.X[:1])
    only = fitted(two.only([1]))
    assert not agent.head._moment.triu(1).any()  # does not count, and holds nothing
    torch.testing.assert_close(agent.head._offset, only.head._offset, rtol=0, atol=1e-12)
    torch.testing.assert_close(agent.head._moment.tril(), only.head._moment.tril(), rtol=0, atol=1e-12)


# -- agents without a record -----------------------------------------------------------------------------------


def test_an_agent_without_a_record_takes_back_what_it_keeps_or_what_it_is_told():
    small = fitted(FIRST, buffer=6).teach(MORE.X, MORE.y)
    older = replace(small, learned=Learned.nothing(complete=False))
    kept = older.replay.X[:1].numpy()
    assert logits(older.forget(kept), TEST).keys() == logits(small, TEST).keys()
    for name, values in logits(small.forget(kept), TEST).items():
        np.testing.assert_allclose(logits(older.forget(kept), TEST)[name], values, rtol=1e-5, atol=1e-5)
    held = {x.tobytes() for x in torch.cat([older.replay.X, older.validation.X]).numpy()}
    (row, *_) = [row for row, x in enumerate(MORE.X) if x.tobytes() not in held]
    with pytest.raises(SamplesMissing, match=r"release 0\.1\.0"):
        older.forget(MORE.X[row : row + 1])
    told = older.forget(MORE.X[row : row + 1], MORE.y[row : row + 1])
    for name, values in logits(small.forget(MORE.X[row : row + 1]), TEST).items():
        np.testing.assert_allclose(logits(told, TEST)[name], values, rtol=1e-5, atol=1e-5)


def test_a_class_of_an_agent_without_a_record_is_removed_by_its_samples():
    small = fitted(FIRST, buffer=6).teach(MORE.X, MORE.y)
    older = replace(small, learned=Learned.nothing(complete=False))
    owls = MORE.of("owl")
    with pytest.raises(SamplesMissing):
        older.remove_class("owl", owls.X[:4])
    with pytest.raises(BadLabels, match="never learned as it"):
        older.remove_class("owl", np.concatenate([owls.X, TEST[:1]]))
    wrong = owls.X.copy()
    wrong[-1] = TEST[0]
    held = {x.tobytes() for x in torch.cat([older.replay.X, older.validation.X]).numpy()}
    if owls.X[-1].tobytes() not in held:
        with pytest.raises(BadLabels):
            older.remove_class("owl", wrong)
    agent = older.remove_class("owl", owls.X)
    for name, values in logits(small.remove_class("owl", owls.X), TEST).items():
        np.testing.assert_allclose(logits(agent, TEST)[name], values, rtol=1e-5, atol=1e-5)


# -- answers of an adaptation ----------------------------------------------------------------------------------


def adapted(world: World, people: dict[str, str] | None = None, overlap: int = 1, budget: int = 16):
    """An adaptation that people answer in turn, as they see it; the agent that it led to."""
    task = world.agent(method="cual-plus", buffer=500).adapt(world.pool, budget, ids=world.ids, overlap=overlap)
    turn = 0
    while query := task.ask():
        for sample in query.ids:
            for _ in range(overlap):
                person = ("zoe", "bob")[turn % 2]
                turn += 1
                answer = world.truth[sample]
                task.tell(query.id, {sample: (people or {}).get(person, answer)}, person=person)
                if sample not in task.state.open:
                    break
    return task, task.finish()


def test_what_one_person_answered_is_taken_back(world: World, tmp_path):
    task, agent = adapted(world)
    zoe = [row["sample"] for row in task.ledger if row["person"] == "zoe"]
    after = agent.forget_answers(task, of="zoe", person="admin", why="she asked for it")
    assert (after.version, after.history[-1]["person"]) == (2, "admin")
    assert "zoe" not in json.dumps(after.history)
    assert after.history[-1]["samples"] >= len(zoe)
    rows = task.pool.ids.rows_of(zoe)
    for x in world.pool[rows]:
        assert traces(after, x, ["zoe", *zoe], tmp_path) == []
    others = {row["answer"] for row in task.ledger if row["person"] == "bob"}
    unvouched = [sample for sample, label in task.pseudo_labels.items() if label not in others]
    assert_same(after, agent.forget(world.pool[task.pool.ids.rows_of([*zoe, *unvouched])]), world.X)
    with pytest.raises(UnknownSample, match="'eve' answered nothing"):
        agent.forget_answers(task, of="eve")
    with pytest.raises(BadOption, match="whose answers"):
        agent.forget_answers(task)


def test_a_class_that_nobody_else_named_goes_with_what_was_believed_of_it(world: World):
    task, agent = adapted(world, {"bob": SKIP})
    assert any(label not in ("cat", "dog") for label in task.pseudo_labels.values())
    after = agent.forget_answers(task, of="zoe")
    assert after.classes_.tolist() == ["cat", "dog"]
    assert_same(after, task.agent, world.X)
    assert set(after.history[-1]["removed_classes"]) == {"owl", "Füchsin mit Schal"}


def test_what_others_answered_of_the_same_sample_stays(world: World):
    task, agent = adapted(world, {"bob": "cat"}, overlap=2, budget=24)
    after = agent.forget_answers(task, of="bob")
    assert set(agent.classes_) == {"cat", "dog"}  # bob outvoted zoe, who knew better
    assert set(after.classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}
    assert set(after.history[-1]["new_classes"]) == {"owl", "Füchsin mit Schal"}
    assert after.history[-1]["learned_otherwise"] > 0
    X = world.pool
    marks = marks_of(torch.from_numpy(X[task.pool.ids.rows_of([row["sample"] for row in task.ledger])]))
    assert np.isin(marks, after.learned.marks).all()
    truth = np.array(list(world.truth.values()))
    assert np.mean(after.predict(X) == truth) > np.mean(agent.predict(X) == truth)


def test_an_answer_that_others_gave_as_well_leaves_the_agent_as_it_is(world: World):
    task, agent = adapted(world, overlap=2, budget=24)
    after = agent.forget_answers(task, of="bob")
    assert_same(after, agent, world.X)
    assert (after.version, after.history[-1]["samples"]) == (2, 0)


def test_single_samples_are_taken_back_whatever_was_said_or_believed(world: World):
    task, agent = adapted(world)
    believed = next(iter(task.pseudo_labels))
    asked = task.ledger[0]["sample"]
    after = agent.forget_answers(task, samples=[believed, asked])
    rows = task.pool.ids.rows_of([believed, asked])
    assert_same(after, agent.forget(world.pool[rows]), world.X)
    with pytest.raises(UnknownSample, match="has no sample 'zebra'"):
        agent.forget_answers(task, samples=["zebra"])


def test_names_of_now_are_used_for_answers_of_then(world: World):
    task, agent = adapted(world, overlap=2, budget=24)
    assert agent.forget_answers(task, of="bob").version == 2
    renamed = agent.rename_class("owl", "barn owl").merge_classes("cat", "dog")
    after = renamed.forget_answers(task, of="bob")
    assert set(after.classes_) == {"cat", "barn owl", "Füchsin mit Schal"}


def test_a_history_of_an_earlier_release_says_less(world: World):
    task, agent = adapted(world)
    row = {name: value for name, value in agent.history[0].items() if name != "volunteered"}
    assert replace(agent, history=(row,)).forget_answers(task, of="zoe").version == 2


def test_an_adaptation_that_did_not_lead_here_is_refused(world: World):
    task, _ = adapted(world)
    other = world.agent(method="cual-plus", buffer=500)
    with pytest.raises(Conflict, match="did not lead to this agent"):
        other.forget_answers(task, of="zoe")
    with pytest.raises(Conflict):
        other.teach(world.X[:1] + 1, ["cat"]).forget_answers(task, of="zoe")

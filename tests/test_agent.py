"""The agent: learning, predicting, novelty, and its file."""

import json
import struct
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from cual import Adaptation, Agent, storage
from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.errors import BadOption, DamagedFile, ForeignFile, NewerFormat, TooFewSamples
from cual.graph import Graph
from cual.heads import Samples
from cual.learned import marks_of
from cual.learners import Accepted
from cual.loop.timing import Timings
from worlds import SMALL, World, file_bytes, without_sums


def test_predicts_by_name_with_probabilities(world: World):
    agent = world.agent(head_options={"hidden": 128, "epochs": 30})
    p = agent.predict_proba(world.X)
    assert p.shape == (60, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert agent.predict(world.X).tolist() == agent.classes_[p.argmax(axis=1)].tolist()
    assert np.mean(agent.predict(world.X) == np.array(world.y)) > 0.95


def test_novelty_is_the_distance_to_the_nearest_class(world: World):
    agent = world.agent()
    expected = np.min([m.fre(torch.from_numpy(world.pool)).numpy() for m in agent.models], axis=0)
    np.testing.assert_allclose(agent.novelty(world.pool), expected, rtol=1e-5)
    novel = np.array([label not in ("cat", "dog") for label in world.truth.values()])
    above = agent.novelty(world.pool) > agent.threshold.value
    assert above[novel].mean() > 0.9
    assert above[~novel].mean() < 0.3


def test_the_threshold_compares_with_scores(world: World):
    agent = world.agent()
    scores, value = agent.novelty(world.pool), agent.threshold.value
    assert (scores > agent.threshold).tolist() == (scores > value).tolist()
    assert (agent.threshold >= scores).tolist() == (value >= scores).tolist()
    assert (torch.from_numpy(scores) > agent.threshold).tolist() == (scores > value).tolist()
    assert [s > agent.threshold for s in scores] == (scores > value).tolist()
    assert (pd.Series(scores) <= agent.threshold).tolist() == (scores <= value).tolist()
    assert float(agent.threshold) == value
    assert agent.threshold_at(0.5) <= agent.threshold


def test_agents_and_adaptations_show_themselves_in_one_line(world: World):
    agent = world.agent()
    assert repr(agent) == "<Agent version 0: 2 classes, cual, features 16 wide>"
    task = world.adapt(agent)
    assert repr(task) == "<Adaptation: 0 of 8 labels used, 70 samples, going on>"
    task.ask()
    assert "questions open" in repr(task)
    task = world.answer_all(task)
    assert f"8 of 8 labels used, 70 samples, ended: {task.ended}" in repr(task)
    assert "\n" not in repr(task)
    task.finish()
    assert "finished" in repr(task)
    assert repr(task.pool) == "<Pool: 70 samples, features 16 wide>"


def test_threshold_is_two_deviations_above_the_validation_mean(world: World):
    agent = world.agent()
    scores = agent.novelty(agent.validation.X.numpy()).astype(np.float64)
    assert agent.threshold.value == pytest.approx(scores.mean() + 2 * scores.std(), rel=1e-6)


def test_a_threshold_at_a_rate_is_a_score_of_the_validation_set(world: World):
    for method in ("cual-plus", "cual", "er-entropy"):
        agent = world.agent(method=method, validation_share=0.4)
        scores = np.sort(agent.novelty(agent.validation.X.numpy()))
        n = len(scores)
        for rate in (0.05, 0.1, 0.3, 0.5):
            above = [t for t in scores if (scores > t).sum() + 1 <= rate * (n + 1) + 1e-9]
            expected = above[0] if above else scores[-1]
            assert agent.threshold_at(rate).value == pytest.approx(expected, rel=1e-6)
    agent = world.agent(method="cual-plus")
    assert agent.threshold_at(0.05).value == pytest.approx(agent.threshold.value, rel=1e-6)
    with pytest.raises(BadOption, match="false_alarms"):
        agent.threshold_at(1.5)


@pytest.mark.parametrize("method", ["cual-plus", "cual"])
def test_calibrated_probabilities_are_those_under_which_the_validation_set_is_likeliest(
    world: World, method: str
):
    agent = world.agent(method=method, validation_share=0.4)
    X, y = agent.validation.X, agent.validation.y.numpy()
    calibrated = agent.calibrated(X.numpy())
    assert calibrated is not None

    def loss(p: np.ndarray) -> float:
        return float(np.mean([-np.log(row[c]) for row, c in zip(p.astype(np.float64), y, strict=True)]))

    logits = agent.head.logits(X).detach().numpy().astype(np.float64)
    exponents = np.arange(-12, 4.25 if method == "cual" else 0.25, 0.25)
    losses = [loss(np.exp(z) / np.exp(z).sum(1, keepdims=True)) for z in (2.0**e * logits for e in exponents)]
    assert loss(calibrated) == pytest.approx(min(losses), rel=1e-3, abs=1e-6)
    assert calibrated.argmax(axis=1).tolist() == agent.predict_proba(X.numpy()).argmax(axis=1).tolist()
    if method == "cual-plus":  # its head finds the scale itself
        np.testing.assert_array_equal(calibrated, agent.predict_proba(X.numpy()))


def test_a_tenth_of_every_class_is_held_out(world: World):
    agent = world.agent(buffer=1000)
    assert np.bincount(agent.validation.y.numpy()).tolist() == [3, 3]
    assert np.bincount(agent.replay.y.numpy()).tolist() == [27, 27]
    held = {row.tobytes() for row in agent.validation.X.numpy()}
    assert not held & {row.tobytes() for row in agent.replay.X.numpy()}


def test_save_and_load_give_the_same_agent(world: World, tmp_path):
    agent = world.answer_all(world.adapt(budget=20)).finish()
    agent.save(tmp_path / "agent.safetensors")
    again = Agent.load(tmp_path / "agent.safetensors")
    np.testing.assert_array_equal(again.predict_proba(world.pool), agent.predict_proba(world.pool))
    np.testing.assert_array_equal(again.novelty(world.pool), agent.novelty(world.pool))
    assert (again.version, again.seed, again.method) == (agent.version, agent.seed, agent.method)
    assert again.history == agent.history
    assert again.classes_.tolist() == agent.classes_.tolist()
    (tmp_path / "again").mkdir()
    assert file_bytes(again, tmp_path / "again") == (tmp_path / "agent.safetensors").read_bytes()


@pytest.mark.parametrize("uncertainty", ["fre", "mahalanobis", "knn"])
def test_every_uncertainty_is_saved(world: World, uncertainty: str, tmp_path):
    agent = world.agent(uncertainty=uncertainty)
    agent.save(tmp_path / "a")
    np.testing.assert_array_equal(Agent.load(tmp_path / "a").novelty(world.pool), agent.novelty(world.pool))


def unexplaining(world: World, agent: Agent, n_novel: int = 0) -> Agent:
    """The agent after a pool whose novel samples nobody explained: the only answer named an old class."""
    novel = [i for i, name in enumerate(world.truth.values()) if name == "owl"]
    rng = np.random.default_rng(agent.version)
    more = world.pool[rng.choice(novel, n_novel)] + rng.normal(0, 0.05, (n_novel, 16))
    task = agent.adapt(np.concatenate([world.pool, more.astype(np.float32)]), budget=1)
    while query := task.ask():
        task.tell(query.id, dict.fromkeys(query.ids, "cat"))
    return task.finish()


def test_what_nothing_explains_is_remembered_and_survives_a_file(world: World, tmp_path):
    first = world.agent(method="cual-plus")
    assert first.unexplained.shape == (0, 16)
    agent = unexplaining(world, first)
    assert agent.unexplained.dtype == torch.float16
    rows = {
        tuple(row): name
        for row, name in zip(world.pool.astype(np.float16).tolist(), world.truth.values(), strict=True)
    }
    names = [rows[tuple(row)] for row in agent.unexplained.tolist()]
    assert len(names) == len({tuple(row) for row in agent.unexplained.tolist()}) > 25
    assert {"owl", "Füchsin mit Schal"} <= set(names)
    agent.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert torch.equal(again.unexplained, agent.unexplained)
    assert again.unexplained.dtype == torch.float16
    (tmp_path / "again").mkdir()
    assert file_bytes(again, tmp_path / "again") == (tmp_path / "agent").read_bytes()
    with safe_open(tmp_path / "agent", framework="np") as file:
        held = [name for name in file.keys() if name.startswith("unexplained")]  # noqa: SIM118
    assert held == ["unexplained.X"]  # features and nothing else: no label that somebody might take for true
    assert not any("unexplained" in row for row in agent.history)


def test_no_more_than_256_samples_are_remembered_the_latest_first(world: World):
    agent = unexplaining(world, world.agent(method="cual-plus"), n_novel=300)
    assert agent.unexplained.shape == (256, 16)
    after = unexplaining(world, agent)
    assert after.unexplained.shape == (256, 16)
    new = len(after.unexplained) - next(
        i for i in range(1, 257) if torch.equal(after.unexplained[-i:], agent.unexplained[:i])
    )
    pool = {tuple(row) for row in world.pool.astype(np.float16).tolist()}
    assert new > 25
    assert all(tuple(row) in pool for row in after.unexplained[:new].tolist())


def test_a_method_that_explains_nothing_remembers_nothing(world: World):
    agent = world.answer_all(world.adapt(budget=4)).finish()
    assert agent.unexplained.shape == (0, 16)


def test_a_file_without_unexplained_samples_is_read(world: World, tmp_path):
    """Releases up to 0.1.0 did not keep any."""
    agent = unexplaining(world, world.agent(method="cual-plus"))
    agent.save(tmp_path / "agent")
    with safe_open(without_sums(tmp_path / "agent"), framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    del tensors["unexplained.X"]
    save_file(tensors, tmp_path / "older", metadata)
    older = Agent.load(tmp_path / "older")
    assert older.unexplained.shape == (0, 16)
    np.testing.assert_array_equal(older.predict_proba(world.pool), agent.predict_proba(world.pool))
    assert world.answer_all(world.adapt(older, budget=8)).finish().version == 2


def test_what_was_learned_is_recorded_with_who_said_so(world: World):
    """Everything that is not held out; answers as a person's, pseudo-labels as guesses."""
    agent = world.agent(method="cual-plus")
    task = world.answer_all(world.adapt(agent))
    labels = {**task.pseudo_labels, **task.answers}
    after = task.finish()
    ids = dict(zip(marks_of(torch.from_numpy(world.pool)).tolist(), world.ids, strict=True))
    before = len(agent.learned)
    assert after.learned.marks[:before].tolist() == agent.learned.marks.tolist()
    samples = [ids[mark] for mark in after.learned.marks[before:].tolist()]
    human = after.learned.human[before:].tolist()
    assert human == [sample in task.answers for sample in samples]
    assert 0 < sum(human) < len(human)
    names = after.classes_[after.learned.classes[before:]].tolist()
    assert names == [labels[sample] for sample in samples]
    held_out = {ids[mark] for mark in marks_of(after.validation.X[len(agent.validation) :]).tolist()}
    assert held_out == set(labels) - set(samples)


def test_a_graph_says_all_that_the_agent_says_unless_novelty_is_not_asked_for(world: World):
    agent = world.agent(validation_share=0.3)
    X = Graph().input("X", np.float32, "n", 16)
    everything = {"logits", "label", "probabilities", "calibrated", "novelty"}
    assert set(agent.draw(X)) == everything
    assert set(agent.draw(X, novelty=False)) == everything - {"novelty"}


def test_in_a_drifted_pool_what_was_known_weighs_as_much_as_each_look(world: World):
    """A class of which n are accepted is to weigh n / (n + 12) of each look so far; all count one at least."""
    agent = world.agent(method="cual-plus")
    kept = Accepted(np.arange(10), np.repeat([0, 2], [6, 4]), np.ones(10, np.int64))
    known = agent.head.counts.tolist()
    factors = agent._yielding(kept, 3)
    np.testing.assert_allclose(factors, [known[0] / (6 + 12), known[1] / 12, 1], rtol=1e-6)
    later = replace(agent, history=(*agent.history, {"version": 1, "drift": 2.0}))
    np.testing.assert_allclose(later._yielding(kept, 3), [1, known[1] / 24, 1], rtol=1e-6)


def test_only_a_head_that_keeps_what_it_learned_yields(world: World):
    """Another one is replayed what it knew, so nothing has to count more."""
    kept = Accepted(np.arange(3), np.zeros(3, np.int64), np.ones(3, np.int64))
    assert world.agent()._yielding(kept, 2) is None
    able = world.agent(method="cual-plus").head
    names = ("n_classes", "logits", "learn", "counts", "whiten", "whitened_means", "shrunk")
    whitens = SimpleNamespace(**{name: getattr(able, name) for name in names})
    assert replace(world.agent(), head=whitens)._yielding(kept, 2) is None


def consolidated(agent: Agent, pool: Pool, accepted: Accepted) -> Agent:
    """The next version, which knows a third class."""
    names = ClassNames((*agent.names.names, "owl"))
    return agent.consolidated(pool, accepted, names, np.empty(0, np.int64), {}, Timings(agent.device))


def test_the_next_version_holds_what_was_accepted_and_who_said_it(world: World):
    """Models of new classes and of those that are believed; memory prefers answers; held-out labels say who."""
    agent, pool = world.agent(buffer=12), Pool(world.pool)
    n = len(pool)
    human = np.arange(n) % 3 == 0
    given = Accepted(np.arange(n), np.where(human, 2, np.arange(n) % 2 * 2), human.astype(np.int64))
    after = consolidated(agent, pool, given)
    X = {tuple(x): place for place, x in enumerate(pool.take(np.arange(n)).tolist())}

    added = slice(len(agent.validation), None)
    held_out = [X[tuple(x)] for x in after.validation.X[added].tolist()]
    assert held_out
    assert after.verified_mask[added].tolist() == human[held_out].tolist()
    assert after.validation.y[added].tolist() == given.classes[held_out].tolist()

    kept = np.setdiff1d(np.arange(n), held_out)
    for c in range(3):
        if c == 1:  # nothing is believed of it
            assert torch.equal(after.models[c].mean, agent.models[c].mean)
            continue
        known = agent.replay.X[agent.replay.y == c].float()
        of_it = torch.cat([known, pool.take(kept[given.classes[kept] == c])])
        torch.testing.assert_close(after.models[c].mean, of_it.mean(dim=0), rtol=1e-4, atol=1e-4)

    owls = after.replay.X[after.replay.y == 2].float()
    assert len(owls) == 4
    assert all(human[X[tuple(x)]] for x in owls.tolist())
    assert after.learned.human[len(agent.learned) :].tolist() == human[kept].tolist()


@pytest.mark.parametrize("held_out", [1, 2])
def test_t_inner_needs_two_validation_samples(world: World, held_out: int):
    agent = world.agent()
    few = replace(
        agent,
        validation=Samples(agent.validation.X[:held_out], agent.validation.y[:held_out]),
        verified=agent.verified_mask[:held_out],
    )
    if held_out < 2:
        with pytest.raises(TooFewSamples, match="holds 1 validation samples"):
            few.adapt(world.pool, 4)
    else:
        assert few.adapt(world.pool, 4).budget == 4


def test_probabilities_of_a_trained_head_are_its_softmax(world: World):
    agent = world.agent()
    logits = agent.head.logits(torch.from_numpy(world.pool).float())
    np.testing.assert_allclose(
        agent.predict_proba(world.pool), logits.softmax(dim=1).numpy(), rtol=1e-5, atol=1e-7
    )


def test_a_rate_of_false_alarms_is_a_share(world: World):
    for rate in (-0.1, 1.1):
        with pytest.raises(BadOption, match="false_alarms"):
            world.agent().threshold_at(rate)


def test_another_seed_gives_another_agent(world: World):
    assert (world.agent(seed=1).predict_proba(world.X) != world.agent(seed=0).predict_proba(world.X)).any()


def test_progress_is_told(world: World):
    calls: list[tuple[str, int, int]] = []
    agent = Agent.fit(world.X, world.y, progress=lambda *call: calls.append(call), **SMALL)
    task = agent.adapt(world.pool, 8, ids=world.ids, progress=lambda *call: calls.append(call))
    world.answer_all(task).finish()
    assert {stage for stage, _, _ in calls} == {"learning the first classes", "adapting", "learning"}
    assert all(0 <= done <= total for _, done, total in calls)


def test_a_truncated_file_is_damaged(world: World, tmp_path):
    path = tmp_path / "agent"
    world.agent().save(path)
    whole = path.read_bytes()
    for size in (0, 5, 8, 20, 200, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedFile, match="agent"):
            Agent.load(path)


def test_flipped_header_bytes_never_give_an_unnamed_error(world: World, tmp_path):
    path = tmp_path / "agent"
    world.agent().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(100):
        broken = bytearray(whole)
        broken[int(rng.integers(0, 3000))] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            Agent.load(path)
        except (DamagedFile, ForeignFile, NewerFormat):
            continue


@pytest.mark.parametrize("changed", [("most-novel", "most-nosey"), ('"alpha": 0.2', '"alpha": 5.2')])
def test_a_file_that_asks_for_what_there_is_not_is_named(world: World, tmp_path, changed: tuple[str, str]):
    path = tmp_path / "agent"
    world.agent().save(path)
    before, after = (json.dumps(text)[1:-1].encode() for text in changed)
    whole = without_sums(path).read_bytes()
    assert whole.count(before) == 1
    path.write_bytes(whole.replace(before, after))
    with pytest.raises(DamagedFile, match=r"agent asks for what there is not: .*(most-nosey|alpha)"):
        Agent.load(path)


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04 a zip file of some kind", b"hello", b"\x00" * 100, b'{"json": true}' * 10]
)
def test_a_foreign_file_is_foreign(content: bytes, tmp_path):
    path = tmp_path / "agent"
    path.write_bytes(content)
    with pytest.raises((ForeignFile, DamagedFile), match="agent"):
        Agent.load(path)


def test_another_safetensors_file_is_foreign(tmp_path):
    save_file({"weights": torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ForeignFile, match="not written by cual"):
        Agent.load(tmp_path / "other.safetensors")


def test_a_file_of_another_kind_is_named(world: World, tmp_path):
    task = world.adapt()
    task.save(tmp_path / "task")
    with pytest.raises(ForeignFile, match="holds a cual pool, not a cual agent"):
        Agent.load(tmp_path / "task" / "pool.safetensors")


def test_a_newer_format_is_refused(world: World, tmp_path):
    path = tmp_path / "agent"
    world.agent().save(path)
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    meta = json.loads(header["__metadata__"]["cual"])
    meta["format"] = storage.FORMAT_APART + 1
    header["__metadata__"]["cual"] = json.dumps(meta)
    changed = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + whole[8 + length :])
    with pytest.raises(NewerFormat, match=r"format 4.*update cual"):
        Agent.load(path)


def test_a_failed_write_leaves_the_old_file(world: World, tmp_path, monkeypatch):
    path = tmp_path / "agent"
    world.agent().save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        world.agent(seed=1).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["agent"]


def test_saving_over_another_adaptation_replaces_it_whole(world: World, tmp_path):
    world.adapt().save(tmp_path)
    other = world.adapt(world.agent(seed=3), budget=5)
    other.ask()
    other.save(tmp_path)
    again = Adaptation.load(tmp_path)
    assert again.budget == 5
    assert again.agent.seed == 3

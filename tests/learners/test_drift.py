"""Drift told from novelty, followed without forgetting, and compared with the version before."""

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cual import Adaptation, Agent
from cual.cli import app
from cual.data.pool import Pool
from cual.learners.prototypes.drift import moved_together
from cual.learners.prototypes.space import Space
from cual.loop.outlook import drifted, outlook
from cual.loop.safety import Comparison, comparison
from cual.serve.jobs.worker import Worker
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from serving import add_person

PACS = Path(__file__).parents[3] / "shared" / "data" / "pacs-lite0.npz"
WIDTH, EACH = 40, 40


@dataclass
class Look:
    """Samples of classes 0 to 3, as they look."""

    X: np.ndarray
    y: np.ndarray

    def only(self, *classes: int) -> "Look":
        chosen = np.isin(self.y, classes)
        return Look(self.X[chosen], self.y[chosen])


def look(seed: int, shift: float = 0.0, each: int = EACH) -> Look:
    """Four classes around centres that are always the same, all moved in one direction."""
    fixed = np.random.default_rng(0)
    centres, direction = fixed.normal(0, 1, (4, WIDTH)), fixed.normal(0, 1, WIDTH)
    y = np.repeat(np.arange(4), each)
    noise = np.random.default_rng([seed, 1]).normal(0, 0.6, (len(y), WIDTH))
    return Look((centres[y] + shift * direction + noise).astype(np.float32), y)


def agent(each: int = EACH, **options: object) -> Agent:
    known = look(1, each=each).only(0, 1, 2)
    return Agent.fit(known.X, known.y, **options)


def adapted(known: Agent, pool: Look, budget: int = 16) -> Adaptation:
    task = known.adapt(pool.X, budget)
    while query := task.ask():
        task.tell(query.id, {i: int(pool.y[i]) for i in query.ids})
    return task


def accuracy(known: Agent, samples: Look) -> float:
    return float((known.predict(samples.X) == samples.y).mean())


# -- how far a pool has moved ----------------------------------------------------------------------------------


def test_the_size_is_that_of_a_naive_loop() -> None:
    rng = np.random.default_rng(3)
    known, pool = rng.normal(0, 1, (50, 6)), rng.normal(0.9, 1, (70, 6))
    expected, orders = [], np.random.default_rng(7)
    for _ in range(3):
        order = orders.permutation(70)
        for drawn, other in ((order[:35], order[35:]), (order[35:], order[:35])):
            line = pool[drawn].mean(0)
            line /= np.linalg.norm(line)
            here, there = pool[other] @ line, known @ line
            near = there[there > (here.mean() + there.mean()) / 2]
            reference = near if len(near) >= 8 else there
            expected.append((np.quantile(here, 0.1) - np.quantile(reference, 0.1)) / there.std(ddof=1))
    arrays = [torch.from_numpy(array) for array in (pool, known)]
    assert moved_together(*arrays, np.random.default_rng(7)) == pytest.approx(np.mean(expected), rel=1e-6)


def size(pool: np.ndarray, known: np.ndarray) -> float:
    arrays = [torch.from_numpy(array) for array in (pool, known)]
    return moved_together(*arrays, np.random.default_rng(0))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_a_new_class_is_no_drift_and_drift_is_one_beside_it(share: float) -> None:
    rng = np.random.default_rng(0)
    known, pool = rng.normal(0, 1, (200, 20)), rng.normal(0, 1, (400, 20))
    pool[: int(400 * share)] += 10
    assert size(pool, known) < 1.7
    assert size(pool + 2, known) > 1.7


def test_noise_of_many_dimensions_is_no_drift() -> None:
    rng = np.random.default_rng(0)
    assert abs(size(rng.normal(0, 1, (100, 2000)), rng.normal(0, 1, (60, 2000)))) < 1


def test_a_look_that_known_samples_have_is_known() -> None:
    rng = np.random.default_rng(0)
    known, pool = rng.normal(0, 1, (300, 20)), rng.normal(3, 1, (200, 20))
    assert size(pool, known) > 3
    known[:40] += 3
    assert size(pool, known) < 1


def test_few_samples_prove_nothing() -> None:
    rng = np.random.default_rng(0)
    many = rng.normal(9, 1, (100, 5))
    assert size(many, rng.normal(0, 1, (7, 5))) == 0
    assert size(rng.normal(0, 1, (15, 5)), many) == 0


# -- what follows ----------------------------------------------------------------------------------------------


def test_the_shift_is_taken_away_from_the_pool_and_from_nothing_else() -> None:
    known, pool = agent(), look(2, shift=2.0)
    part = known.method.learner
    space = Space(known.head, known, Pool(pool.X), part, drifted=True)
    head = known.head.shrunk(part.drift_shrink)
    W, V = head.whiten(torch.from_numpy(pool.X)), head.whiten(known.validation.X)
    moved = W - (W.mean(0) - head.whitened_means().mean(0))
    expected = torch.nn.functional.normalize(moved, dim=1)
    assert torch.allclose(torch.cat([U for _, U in space.chunks()]), expected, atol=1e-5)
    directions = torch.nn.functional.normalize(V, dim=1)
    assert torch.allclose(space.directions(known.validation.X), directions, atol=1e-5)


def test_a_drifted_pool_is_followed_a_new_class_found_and_the_first_look_kept() -> None:
    known, new, first = agent(), look(2, shift=2.0), look(3)
    fresh = look(4, shift=2.0)
    task = adapted(known, new)
    assert task.drift is not None
    assert task.drift > 1
    after = task.finish()
    assert accuracy(after, fresh) > accuracy(known, fresh) + 0.1
    assert accuracy(after, fresh) > 0.9
    assert accuracy(after, first) > accuracy(known, first)
    assert after.history[-1]["drift"] == pytest.approx(task.drift, abs=0.01)
    assert "unlearned" not in after.history[-1]


def test_a_pool_of_the_same_look_again_has_not_drifted() -> None:
    after = adapted(agent(), look(2, shift=2.0)).finish()
    task = adapted(after, look(5, shift=2.0))
    assert task.drift is None
    assert "drift" not in task.outcome


def test_without_drift_nothing_is_called_drift_and_the_option_turns_it_off() -> None:
    task = adapted(agent(), look(2))
    assert task.drift is None
    assert task.outlook.drift is None
    assert adapted(agent(learner={"drift": 0.0}), look(2, shift=2.0)).drift is None


def test_drift_goes_on_to_the_same_bits_from_a_file(tmp_path: Path) -> None:
    pool = look(2, shift=2.0)
    whole = adapted(agent(), pool)
    task = agent().adapt(pool.X, 16)
    while query := task.ask():
        task.tell(query.id, {i: int(pool.y[i]) for i in query.ids})
        task.save(tmp_path / "task")
        task = Adaptation.load(tmp_path / "task")
    assert task.pseudo_labels == whole.pseudo_labels
    fresh = look(4, shift=2.0).X
    assert np.array_equal(task.finish().predict_proba(fresh), whole.finish().predict_proba(fresh))


def test_what_was_known_yields_to_a_new_look_however_much_of_it_there_is() -> None:
    fresh = look(4, shift=2.0)
    accuracies = [
        accuracy(adapted(agent(each), look(2, shift=2.0)).finish(), fresh) for each in (EACH, 20 * EACH)
    ]
    assert accuracies[1] > accuracies[0] - 0.05
    heavy = agent(20 * EACH)
    after = adapted(heavy, look(2, shift=2.0)).finish()
    gained = (after.head.counts[:3] - heavy.head.counts[:3]).numpy()
    assert (gained > 0.5 * heavy.head.counts[:3].numpy()).all()
    assert (gained < heavy.head.counts[:3].numpy()).all()


def test_what_counts_more_is_taken_back_as_it_counted() -> None:
    pool = look(2, shift=2.0)
    task = adapted(agent(20 * EACH), pool)
    after = task.finish()
    row = next(i for i in task.answers if pool.y[i] == 0 and (after.learned.weights > 1).any())
    less = after.forget(pool.X[row][None])
    lost = float(after.head.counts[0] - less.head.counts[0])
    assert lost > 5
    assert lost == pytest.approx(float(after.learned.weights.max()), rel=0.5)
    assert float(less.head.counts[1]) == pytest.approx(float(after.head.counts[1]))


# -- never worse -----------------------------------------------------------------------------------------------


def test_a_version_that_does_worse_learns_no_guesses_about_known_classes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nearly all of a new look is one class: the mean of the pool is no measure of the shift then."""
    pool, known = one_sided()[1], agent(10 * EACH)
    fresh = look(3, shift=1.0).only(0, 1, 2)
    task = adapted(known, pool)
    with caplog.at_level(logging.WARNING):
        safe = task.finish()
    unsafe = adapted(known, pool).finish(safe=False)
    assert "pseudo-labels of known classes are not learned" in caplog.text
    assert safe.history[-1]["unlearned"] == len(task.pseudo_labels) > 0
    assert "unlearned" not in unsafe.history[-1]
    assert float(safe.head.counts.sum()) < float(unsafe.head.counts.sum())
    assert accuracy(safe, fresh) >= accuracy(known, fresh)
    assert accuracy(safe, fresh) >= accuracy(unsafe, fresh)


def test_a_pool_of_one_known_class_has_not_drifted() -> None:
    assert agent().adapt(look(2, each=120).only(1).X, 5).drift is None


def test_versions_are_compared_by_labels_that_neither_has_learned() -> None:
    known, pool = agent(), look(2, shift=2.0)
    task = adapted(known, pool)
    _, accepted = task.machine.settled(task.state)
    after = task.finish()
    compared = comparison(known, after, task.pool, accepted)
    assert compared.answers[1] > compared.answers[0]
    assert not compared.worse
    held_out = Look(known.validation.X.numpy(), known.classes_[known.validation.y.numpy()])
    won = compared.held_out[1] - compared.held_out[0]
    assert won == round(len(held_out.y) * (accuracy(after, held_out) - accuracy(known, held_out)))


@pytest.mark.parametrize(
    ("answers", "held_out", "worse"),
    [((2, 0), (0, 0), False), ((3, 0), (0, 0), True), ((9, 5), (0, 0), False), ((0, 9), (20, 10), True)],
)
def test_a_version_is_worse_where_chance_would_hardly_have_it_so(
    answers: tuple[int, int], held_out: tuple[int, int], worse: bool
) -> None:
    assert Comparison(answers, held_out).worse == worse


# -- what people are told --------------------------------------------------------------------------------------


def test_the_outlook_says_what_is_drift_and_what_is_novel() -> None:
    said = str(adapted(agent(), look(2, shift=2.0)).outlook)
    assert said.startswith("Most of this looks like known classes in a new look: the whole pool has moved by ")
    assert "are of known classes. About " in said
    task = adapted(agent(), look(2, shift=2.0))
    assert task.outlook.drift is not None
    share, low, high = task.outlook.drift.share or (0, 0, 0)
    assert low <= share <= high
    assert share == pytest.approx(0.75, abs=0.1)
    assert low <= 0.75 <= high


def test_before_any_answer_only_the_shift_is_told() -> None:
    unasked = drifted(3.0, pool=50, novel=50.0, said_novel=0, said=0)
    assert unasked.share is None
    assert "3.0 deviations" in str(unasked)
    ahead = outlook(50.0, 0, 0.0, 0, 0, drift=unasked)
    assert ahead.novel is None
    assert ahead.worth_asking
    assert str(ahead).endswith("How much of it is novel, only answers can tell.")
    told = drifted(3.0, pool=50, novel=1.0, said_novel=0, said=9)
    assert outlook(1.0, 0, 0.0, 0, 9, drift=told).worth_asking
    assert not outlook(1.0, 0, 0.0, 0, 9).worth_asking


def one_sided() -> tuple[Look, Look]:
    """Known classes, and a pool in a new look of which nearly all is one class: its mean misleads."""
    new = look(2, shift=1.0, each=400).only(0, 1, 2)
    return look(1, each=10 * EACH).only(0, 1, 2), Look(new.X[:440], new.y[:440])


def test_the_command_line_says_what_was_not_learned_and_learns_it_if_told_to(tmp_path: Path) -> None:
    known, pool = one_sided()
    np.savez(tmp_path / "known.npz", X=known.X, y=known.y)
    np.savez(tmp_path / "pool.npz", X=pool.X)
    lines = [f"{i},{label}" for i, label in enumerate(pool.y)]
    (tmp_path / "answers.csv").write_text("\n".join(["id,label", *lines]))
    run = partial(CliRunner().invoke, app, env={"COLUMNS": "200"}, catch_exceptions=False)
    assert run(["fit", str(tmp_path / "known.npz"), "-o", str(tmp_path / "v0.agent")]).exit_code == 0
    adapt = ["adapt", str(tmp_path / "v0.agent"), str(tmp_path / "pool.npz"), "--budget", "16", "--only-asked"]
    adapt += ["--labels", str(tmp_path / "answers.csv"), "-o"]
    safe = run([*adapt, str(tmp_path / "safe.agent")])
    assert "guesses about known classes were not learned. To learn them, --learn-anyway." in safe.stdout
    assert "known classes in a new look" in safe.stdout
    assert "unlearned" in Agent.load(tmp_path / "safe.agent").history[-1]
    unsafe = run([*adapt, str(tmp_path / "unsafe.agent"), "--learn-anyway"])
    assert "were not learned" not in unsafe.stdout
    assert "unlearned" not in Agent.load(tmp_path / "unsafe.agent").history[-1]


def test_the_service_says_the_same(tmp_path: Path) -> None:
    known, pool = one_sided()
    workspace = Workspace.open(tmp_path / "workspace")
    agent_id = workspace.add_agent("shapes", Agent.fit(known.X, known.y), OPERATOR).id
    pool_id = workspace.add_pool("new look", Pool(pool.X), agent_id, OPERATOR).id
    ann, worker = add_person(workspace, "ann", Role.admin), Worker(workspace)
    worker.run_until_idle()
    id = workspace.start(agent_id, pool_id, 16, ann).id
    worker.run_until_idle()
    assert "known classes in a new look" in (workspace.adaptation(id).outlook or "")
    while workspace.adaptation(id).state == "asking":
        lent = workspace.lend(id, ann, 16)
        workspace.answer(id, ann, {q.id: int(pool.y[q.sample]) for q in lent})
        worker.run_until_idle()
    workspace.finish(id, OPERATOR)
    worker.run_until_idle()
    assert "guesses about known classes were not learned" in (workspace.adaptation(id).outlook or "")
    workspace.close()


# -- every head ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cual", "er-random", "cual-plus"])
def test_answers_about_known_classes_are_learned_though_nothing_novel_was_found(method: str) -> None:
    options = {} if method == "cual-plus" else {"head": {"hidden": 16, "epochs": 3}}
    known = agent(method=method, **options)
    pool = look(2, shift=0.3).only(0, 1, 2)
    task = known.adapt(pool.X, 12)
    while query := task.ask():
        task.tell(query.id, {i: int(pool.y[i]) for i in query.ids})
    assert task.labels_used > 0
    after = task.finish()
    assert after.classes_.tolist() == known.classes_.tolist()
    X = torch.from_numpy(pool.X)
    assert not torch.equal(after.head.logits(X), known.head.logits(X))


# -- real pictures ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(not PACS.exists(), reason="../shared/data/pacs-lite0.npz is not there")
def test_sketches_after_photos() -> None:
    with np.load(PACS) as arrays:
        X, y, domain = arrays["X"].astype(np.float32), arrays["y"], arrays["domain"]
    test = np.random.default_rng(10).random(len(y)) < 0.2
    first = (domain == "photo") & ~test & (y != "horse")
    known = Agent.fit(X[first], y[first])
    pool = np.flatnonzero((domain == "sketch") & ~test)
    task = known.adapt(X[pool], 0.05, ids=pool)
    assert task.drift is not None
    while query := task.ask():
        task.tell(query.id, {i: str(y[i]) for i in query.ids})
    after = task.finish()
    sketches, photos = test & (domain == "sketch"), test & (domain == "photo")
    assert (after.predict(X[sketches]) == y[sketches]).mean() > 0.5
    assert (known.predict(X[sketches]) == y[sketches]).mean() < 0.4
    assert (after.predict(X[photos]) == y[photos]).mean() > (
        known.predict(X[photos]) == y[photos]
    ).mean() - 0.02

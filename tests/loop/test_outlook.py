"""The stopping estimate: novel samples that are left, and whether another question is worth it."""

import numpy as np
import pytest
import torch

from cual.learners import Scored
from cual.loop.outlook import novel_samples, outlook
from cual.uncertainty import Threshold
from worlds import World


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_counts_what_lies_beyond_the_known(share: float) -> None:
    rng = np.random.default_rng(0)
    n_novel = round(2000 * share)
    scores = np.concatenate([rng.normal(0, 1, 2000 - n_novel), rng.normal(5, 1, n_novel)])
    known = torch.from_numpy(rng.normal(0, 1, 500))
    assert novel_samples(Scored(scores, np.full(2000, -1), known)) == pytest.approx(n_novel, abs=120)


def test_shares_are_added_up() -> None:
    shares = np.array([0.5, 1.0, 0.25], np.float32)
    assert novel_samples(Scored(shares, np.zeros(3), torch.zeros(2), Threshold(0.5, 0, 0.2))) == 1.75
    assert novel_samples(Scored(shares[:0], np.zeros(0), torch.zeros(2))) == 0


def test_nothing_left_is_not_worth_a_question() -> None:
    assert not outlook(50.0, before=5, since=50, said_novel=5, said=8).worth_asking
    assert outlook(50.0, before=5, since=40, said_novel=5, said=8).worth_asking


def test_the_gain_of_a_question_is_how_likely_it_meets_a_novel_sample_times_what_one_settles() -> None:
    ahead = outlook(40.0, before=6, since=10, said_novel=4, said=7)
    assert (ahead.novel, ahead.left) == (46, 30)
    assert ahead.gain == pytest.approx(5 / 9 * 16 / 4)  # four answers settled sixteen
    assert outlook(12.0, before=60, since=10, said_novel=4, said=7).gain == pytest.approx(
        5 / 9 * 2
    )  # all there is
    guessed = outlook(40.0, before=6, since=10, said_novel=4, said=7, labelled=False)
    assert guessed.gain == pytest.approx(5 / 9 * 30 / 5)  # its share of what is left
    assert outlook(40.0, before=0, since=0, said_novel=0, said=3).gain == pytest.approx(1 / 5 * 40)
    over = outlook(10.0, before=6, since=10.5, said_novel=4, said=7)
    assert (over.left, over.gain, over.worth_asking) == (0, 0, False)


@pytest.mark.parametrize("method", ["cual", "cual-plus"])
def test_an_adaptation_tells_what_is_left(world: World, method: str) -> None:
    task = world.adapt(world.agent(method=method), budget=12)
    assert task.outlook.novel is None
    assert "Nothing is known" in str(task.outlook)
    query = task.ask()
    assert query is not None
    first = task.outlook
    assert first.left == pytest.approx(first.novel)
    task.tell(query.id, {i: world.truth[i] for i in query.ids})
    novel = sum(world.truth[i] not in ("cat", "dog") for i in query.ids)
    assert task.outlook.left == pytest.approx(max(0, first.left - novel))
    if (query := task.ask()) and method == "cual-plus":  # believes at the end, and says so before
        told = sum(world.truth[i] not in ("cat", "dog") for i in task.answers)
        assert task.pseudo_labels == {}
        assert task.outlook.left < task.outlook.novel - told
    world.answer_all(task)
    truth = sum(name not in ("cat", "dog") for name in world.truth.values())
    assert task.outlook.novel == pytest.approx(truth, abs=6)
    assert task.outlook.left < 6
    assert f"{task.outlook.left:.0f} of them still without a label" in str(task.outlook)

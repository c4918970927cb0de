"""Review of pseudo-labels: reject sends them back to the pool, confirm only writes down, doubts order them."""

import numpy as np
import pytest

from cual import Adaptation
from cual.errors import AlreadyFinished, UnknownSample
from worlds import World, file_bytes, make_world


def believing(world: World, **options: object) -> Adaptation:
    """An adaptation that has believed something and still asks."""
    task = world.adapt(world.agent(**options))
    while not task.pseudo_labels:
        query = task.ask()
        assert query is not None
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
        task.ask()
    return task


def test_what_is_rejected_goes_back_to_the_pool_and_is_not_believed_again(world: World) -> None:
    task = believing(world)
    rejected = list(task.pseudo_labels)[:3]
    task.reject(rejected)
    assert not set(rejected) & set(task.pseudo_labels)
    world.answer_all(task)
    assert not set(rejected) & set(task.pseudo_labels)
    later = {task.pool.ids[row] for this in task.rounds[2:] for row in this.rows.tolist()}
    assert set(rejected) <= later | set(task.answers), "they are scored again, and may be asked about"
    assert task.labels_used <= task.budget


def test_the_next_agent_does_not_learn_what_was_rejected(world: World) -> None:
    plain, reviewed = (world.answer_all(world.adapt()) for _ in range(2))
    reviewed.reject(list(reviewed.pseudo_labels)[:5])
    assert plain.finish().history[-1]["pseudo_labels"] == reviewed.finish().history[-1]["pseudo_labels"] + 5


def test_confirming_charges_nothing_and_changes_nothing(world: World, tmp_path: object) -> None:
    plain, reviewed = (world.answer_all(world.adapt()) for _ in range(2))
    before = reviewed.labels_used
    reviewed.confirm(reviewed.pseudo_labels)
    assert reviewed.labels_used == before
    assert file_bytes(plain.finish(), tmp_path) == file_bytes(reviewed.finish(), tmp_path)


def test_reviews_are_in_the_journal_once(world: World) -> None:
    task = believing(world)
    one, two, *_ = task.pseudo_labels
    task.confirm([one, two, one])
    task.confirm([np.str_(one)])
    task.reject([one])
    judged = [
        (row["event"], row["samples"]) for row in task.journal if row["event"] in ("confirmed", "rejected")
    ]
    assert judged == [("confirmed", [one, two]), ("rejected", [one])]


def test_only_pseudo_labels_can_be_reviewed(world: World) -> None:
    task = believing(world)
    asked = task.ledger[0]["sample"]
    for apply in (task.reject, task.confirm):
        with pytest.raises(UnknownSample, match="has no pseudo-label"):
            apply([asked])
    rejected = next(iter(task.pseudo_labels))
    task.reject([rejected])
    with pytest.raises(UnknownSample):
        task.confirm([rejected])


def test_nothing_is_reviewed_when_one_is_wrong(world: World) -> None:
    task = believing(world)
    before = task.pseudo_labels
    with pytest.raises(UnknownSample):
        task.reject([*before, "nobody"])
    assert task.pseudo_labels == before


def test_after_the_end_it_is_too_late(world: World) -> None:
    task = world.answer_all(world.adapt())
    sample = next(iter(task.pseudo_labels))
    task.finish()
    for apply in (task.reject, task.confirm):
        with pytest.raises(AlreadyFinished):
            apply([sample])


def test_a_reviewed_adaptation_resumes_exactly(world: World, tmp_path: object) -> None:
    task = believing(world)
    some = list(task.pseudo_labels)
    task.reject(some[:2])
    task.confirm(some[2:3])
    task.save(tmp_path / "task")
    resumed = Adaptation.load(tmp_path / "task")
    assert resumed.pseudo_labels == task.pseudo_labels
    assert resumed.doubts == task.doubts
    agents = [file_bytes(world.answer_all(t).finish(), tmp_path) for t in (task, resumed)]
    assert agents[0] == agents[1]


@pytest.mark.parametrize("method", ["cual", "cual-plus", "pseudo-er-margin", "incdfm"])
def test_doubts_are_shares_and_follow_the_score(method: str) -> None:
    world = make_world()
    task = world.answer_all(world.adapt(world.agent(method=method)))
    doubts = task.doubts
    assert doubts.keys() == task.pseudo_labels.keys()
    assert doubts
    assert all(0 <= doubt <= 1 for doubt in doubts.values())
    for this in task.rounds:
        position = {row: p for p, row in enumerate(this.rows.tolist())}
        for row in this.pseudo_rows.tolist():
            sample, score = task.pool.ids[row], float(this.scores[position[row]])
            if sample in doubts:
                threshold = this.threshold.value
                expected = score / threshold if method == "pseudo-er-margin" else threshold / score
                if method == "cual-plus":
                    expected = 1 - float(task.machine._short.probabilities(this.rows)[position[row]].max())
                assert doubts[sample] == pytest.approx(min(1.0, max(0.0, expected)), abs=1e-5)

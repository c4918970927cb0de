"""Review of pseudo-labels: reject sends them back to the pool, confirm only writes down, doubts order them."""

import numpy as np
import pytest

from cual import Adaptation
from cual.errors import AlreadyFinished, Conflict, UnknownSample
from cual.loop.reviewing import withdrawing
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


def test_a_verdict_can_be_changed(world: World) -> None:
    task = believing(world)
    believed = task.pseudo_labels
    sample = next(iter(believed))
    task.reject([sample])
    assert sample not in task.pseudo_labels
    task.confirm([sample])
    assert task.pseudo_labels == believed


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


# -- classes that nobody asked for -----------------------------------------------------------------------------


def test_a_class_given_unasked_is_an_answer_and_charged(world: World) -> None:
    task = believing(world)
    sample, label = next(iter(task.pseudo_labels.items()))
    used = task.labels_used
    told = task.correct({sample: "something new"}, "ada")
    assert (told.charged, told.noted, told.confirmed) == (1, 0, 0)
    assert task.labels_used == used + 1
    assert task.answers[sample] == "something new"
    assert sample not in task.pseudo_labels
    task.correct({sample: "something else"}, "ada")
    assert task.labels_used == used + 1, "another class in its place costs nothing more"
    row = next(row for row in task.ledger if row["sample"] == sample)
    assert (row["answer"], row["suggestion"], row["charged"], row["unasked"]) == (
        "something else",
        label,
        1,
        True,
    )
    world.answer_all(task)
    assert task.labels_used <= task.budget
    assert "something else" in task.finish().classes_


def test_without_room_it_is_a_rejection_with_the_class_noted(world: World) -> None:
    task = world.answer_all(world.adapt())
    room = task.budget - task.labels_used
    wrong = dict.fromkeys(list(task.pseudo_labels)[: room + 2], "another")
    told = task.correct(wrong)
    assert (told.charged, told.noted) == (room, 2)
    assert task.labels_used == task.budget
    noted = [sample for sample, verdict in task.state.verdicts.items() if verdict.instead == "another"]
    assert len(noted) == 2
    assert not set(wrong) & set(task.pseudo_labels)
    assert ("another" in task.finish().classes_) is (room > 0)


def test_naming_what_is_believed_confirms_it_for_free(world: World) -> None:
    task = believing(world)
    sample, label = next(iter(task.pseudo_labels.items()))
    used = task.labels_used
    assert task.correct({sample: label}).confirmed == 1
    assert (task.labels_used, task.state.verdicts[sample].right) == (used, True)


def test_verdicts_and_classes_are_taken_back(world: World) -> None:
    task = believing(world)
    believed = task.pseudo_labels
    one, two, *_ = believed
    task.reject([one])
    task.unjudge([one])
    task.correct({two: "another"})
    for event in withdrawing(task.state, [two], None):
        task._journal.add(event)
    assert task.pseudo_labels == believed
    assert not task.state.verdicts
    assert two not in task.state.questions, "nobody is asked about it now"
    with pytest.raises(UnknownSample, match="taken back"):
        withdrawing(task.state, [two], None)


def test_who_was_asked_about_is_answered_not_reviewed(world: World) -> None:
    task = believing(world)
    with pytest.raises(Conflict, match="was asked about"):
        task.correct({task.ledger[0]["sample"]: "another"})


# -- what would be believed ------------------------------------------------------------------------------------


def test_what_is_foreseen_changes_nothing_and_is_marked_by_its_name(tmp_path: object) -> None:
    world = make_world()
    plain, watched = (world.adapt(world.agent(method="cual-plus")) for _ in range(2))
    seen = 0
    while (query := watched.ask()) is not None:
        foreseen = watched.foreseen
        assert not set(foreseen.labels) & set(watched.state.questions)
        assert foreseen.labels.keys() == foreseen.doubts.keys() == watched.margins(foreseen.labels).keys()
        assert not watched.pseudo_labels
        seen += len(foreseen.labels)
        watched.tell(query.id, {i: world.truth[i] for i in query.ids})
    assert seen
    assert not watched.foreseen.labels, "what is believed in the end is not provisional"
    world.answer_all(plain)
    assert file_bytes(plain.finish(), tmp_path) == file_bytes(watched.finish(), tmp_path)


def test_what_is_rejected_early_is_not_believed_in_the_end() -> None:
    world = make_world()
    task = world.adapt(world.agent(method="cual-plus"))
    while not task.foreseen.labels:
        query = task.ask()
        assert query is not None
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
        task.ask()
    rejected = list(task.foreseen.labels)[:4]
    task.reject(rejected)
    assert not set(rejected) & set(task.foreseen.labels)
    world.answer_all(task)
    assert not set(rejected) & set(task.pseudo_labels)


@pytest.mark.parametrize("method", ["cual", "cual-plus"])
def test_margins_are_those_of_a_loop(method: str) -> None:
    world = make_world()
    agent = world.agent(method=method)
    task = world.answer_all(world.adapt(agent))
    margins = task.margins()
    assert margins.keys() == task.pseudo_labels.keys()
    if method == "cual-plus":
        doubts = task.doubts
        order = sorted(margins, key=lambda sample: -margins[sample])
        assert [doubts[s] for s in order] == sorted(doubts.values()), "the smaller the lead, the more doubtful"
        return
    replayed, names = agent.replay.samples(), task.state.numbered.names
    known = [(x, names[c]) for x, c in zip(replayed.X.numpy(), replayed.y.tolist(), strict=True)]
    features = {i: task.pool.take(task.pool.ids.rows_of([i]))[0].numpy() for i in task.pool.ids}
    known += [(features[sample], label) for sample, label in task.answers.items()]
    middle = np.mean([x for x, _ in known], axis=0)
    for sample, label in list(task.pseudo_labels.items())[:10]:
        v = features[sample] - middle
        alike = [
            (float(v @ (x - middle)) / np.linalg.norm(v) / np.linalg.norm(x - middle), c) for x, c in known
        ]
        own, other = (max(a for a, c in alike if (c == label) is mine) for mine in (True, False))
        assert margins[sample] == pytest.approx(own - other, abs=1e-4)

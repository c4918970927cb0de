"""What answers of several people come to: consensus, what opinions cost, and that one person is as before."""

import numpy as np
import pytest

from cual.data.labels import SKIP
from cual.errors import BadBudget, BadOption
from cual.loop import events
from cual.loop.consensus import Opinions, consensus
from cual.loop.state import State
from worlds import make_world


def simulated(skill: dict[str, float], n: int, seed: int) -> tuple[list[str], list[Opinions]]:
    """Samples of four classes, and what people of some skill said of each."""
    rng, classes = np.random.default_rng(seed), ["ant", "bee", "cat", "dog"]
    truth = [classes[i] for i in rng.integers(4, size=n)]
    said = [
        {
            who: t if rng.random() < right else str(rng.choice([c for c in classes if c != t]))
            for who, right in skill.items()
        }
        for t in truth
    ]
    return truth, [Opinions(by) for by in said]


def majority(opinions: Opinions) -> str:
    votes = list(opinions.by.values())
    return max(dict.fromkeys(votes), key=votes.count)


@pytest.mark.parametrize("seed", range(5))
def test_consensus_beats_the_majority_where_people_differ(seed: int) -> None:
    truth, samples = simulated({"ada": 0.95, "bob": 0.5, "cid": 0.5}, 200, seed)
    agreed = consensus(samples, n_classes=4)
    right = np.mean([a.label == t for a, t in zip(agreed, truth, strict=True)])
    voted = np.mean([majority(s) == t for s, t in zip(samples, truth, strict=True)])
    assert right > voted + 0.02
    assert consensus(samples, n_classes=4) == agreed, "the same opinions come to the same bits"


def test_who_agrees_is_surer_than_who_does_not_and_what_is_settled_is_certain() -> None:
    same, torn = Opinions({1: "fox", 2: "fox"}), Opinions({1: "fox", 2: "owl"})
    settled = Opinions({1: "fox", 2: "fox"}, settled="owl")
    agreed = consensus([same, same, same, torn, settled], n_classes=5)
    assert agreed[0].weight > 0.9 > agreed[3].weight
    assert (agreed[4].label, agreed[4].weight) == ("owl", 1.0)
    assert consensus([], 3) == []


def asked(overlap: int, budget: int = 8) -> State:
    samples = [{"sample": s, "score": 1.0, "suggestion": None} for s in "abcd"]
    return State.of([events.begun(budget, ["cat"], None, overlap), events.asked(0, "q0", samples)])


def tell(state: State, sample: str, answer: object, person: str, settle: bool = False) -> None:
    for row in state.answering("q0", {sample: answer}, person, settle):
        state.apply(row)


def test_a_question_is_open_until_so_many_people_answered_and_every_opinion_costs() -> None:
    state = asked(overlap=2)
    assert (state.promised, state.affordable) == (8, 4)
    tell(state, "a", "fox", "ada")
    assert ("a" in state.open, state.charged, state.promised) == (True, 1, 7)
    tell(state, "a", "wolf", "ada")
    assert (len(state.open), state.charged) == (4, 1), "a correction is no second opinion"
    tell(state, "a", "wolf", "bob")
    assert ("a" in state.open, state.charged, state.questions["a"].disagreement) == (False, 2, False)
    tell(state, "b", SKIP, "ada")
    tell(state, "b", "owl", "bob")
    assert (state.open, state.charged, state.answers["b"]) == (["c", "d"], 3, "owl")
    tell(state, "c", "owl", "cid", settle=True)
    assert (state.open, state.charged, state.weights["c"]) == (["d"], 4, 1.0)
    tell(state, "a", "fox", "cid", settle=True)
    assert (state.answers["a"], state.charged) == ("fox", 4), "settling costs nothing more"
    with pytest.raises(BadOption, match="whose answers"):
        state.answering("q0", {"d": "fox"})
    again = state.after([])
    assert again.ledger() == state.ledger()
    assert sum(row["charged"] for row in state.ledger()) == state.charged


def test_a_lower_overlap_opens_the_way_and_gives_nothing_back() -> None:
    state = asked(overlap=3, budget=12)
    for person in ("ada", "bob"):
        tell(state, "a", "fox", person)
    tell(state, "b", "fox", "ada")
    lower = state.after([events.overlapped(2)])
    assert (lower.open, lower.charged, lower.promised) == (["b", "c", "d"], 3, 5)
    assert state.after([events.overlapped(1)]).open == ["c", "d"]
    assert state.after([events.overlapped(1)]).charged == 3, "what was paid for stays so"


def test_an_adaptation_with_two_people_learns_by_weights_and_keeps_to_its_budget() -> None:
    world = make_world()
    agent = world.agent()
    task = agent.adapt(world.pool, budget=12, ids=world.ids, overlap=2)
    while query := task.ask():
        for person in ("ada", "bob"):
            wrong = person == "bob" and query.round == 0
            answers = {i: world.truth[i] for i in query.ids}
            if wrong:
                answers[query.ids[0]] = next(
                    t for t in sorted(set(world.truth.values())) if t != answers[query.ids[0]]
                )
            task.tell(query.id, answers, person=person)
    assert task.labels_used <= 12
    accepted = task.machine.accepted(task.state)
    answered = accepted.only(accepted.human == 1)
    assert answered.weights is not None
    assert answered.weights.min() < 0.9 < answered.weights.max()
    assert task.finish().version == 1
    with pytest.raises(BadBudget, match="does not pay"):
        agent.adapt(world.pool, budget=2, ids=world.ids, overlap=3)


def test_with_one_person_nothing_is_weighed_and_no_event_says_so() -> None:
    world = make_world()
    task = world.agent().adapt(world.pool, budget=8, ids=world.ids)
    while query := task.ask():
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    assert task.machine.accepted(task.state).weights is None
    assert task.state.weights == {}
    assert "overlap" not in task.journal[0]

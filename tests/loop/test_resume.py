"""Properties of the state machine: killed anywhere it ends in the same bits; no label is lost or paid twice."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual import SKIP, Adaptation, Agent
from cual.errors import BudgetExceeded
from cual.methods import methods
from worlds import World, file_bytes, make_world

WORLD = make_world()
AGENTS: dict[str, Agent] = {}


def agent(method: str) -> Agent:
    """One agent per method, fitted once: it never changes."""
    if method not in AGENTS:
        AGENTS[method] = WORLD.agent(method=method)
    return AGENTS[method]


def run(method: str, kills: set[int], reverse: bool = False, forget: bool = False) -> bytes:
    """Adapt, one answer at a time; after the operations numbered in `kills`, go on from the file alone.

    `forget` deletes what was computed as well, so that only the journal is left.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, done = Path(name), 0
        task = WORLD.adapt(agent(method), budget=8)

        def killed(task: Adaptation) -> Adaptation:
            nonlocal done
            done += 1
            if done in kills:
                task.save(folder / "task")
                del task
                if forget:
                    (folder / "task" / "cache.safetensors").unlink(missing_ok=True)
                return Adaptation.load(folder / "task")
            return task

        while query := task.ask():
            task = killed(task)
            for sample in query.ids[::-1] if reverse else query.ids:
                answer = SKIP if str(sample).endswith("7.jpg") else WORLD.truth[str(sample)]
                task.tell(query.id, {sample: answer})
                task = killed(task)
        return file_bytes(task.finish(), folder)


@pytest.mark.parametrize("method", methods.names())
@settings(max_examples=3, deadline=None)
@given(kills=st.sets(st.integers(1, 16), min_size=1, max_size=6))
def test_killed_anywhere_it_ends_in_the_same_bits(method: str, kills: set[int]):
    assert run(method, kills) == run(method, set())


@pytest.mark.more
@settings(max_examples=25, deadline=None)
@given(kills=st.sets(st.integers(1, 16), max_size=6), reverse=st.booleans())
def test_the_order_of_answers_and_kills_does_not_matter(kills: set[int], reverse: bool):
    assert run("cual", kills, reverse) == run("cual", set())


def test_every_single_point_of_an_adaptation_can_be_killed():
    undisturbed = run("cual", set())
    for point in range(1, 20):
        assert run("cual", {point}) == undisturbed


@pytest.mark.parametrize("method", ["cual", "cual-plus", "pseudo-er-margin", "incdfm"])
def test_what_was_computed_can_be_deleted_at_every_step_and_comes_back(method: str):
    undisturbed = run(method, set())
    assert run(method, set(range(1, 20)), forget=True) == undisturbed
    for point in (1, 4, 9):
        assert run(method, {point}, forget=True) == undisturbed


def test_what_is_computed_again_is_what_it_was_in_spite_of_corrections(tmp_path: Path):
    """A correction counts from then on: rounds before it are computed again with what was known then."""
    task = WORLD.adapt(agent("cual"), budget=8)
    first = task.ask()
    assert first is not None
    task.tell(first.id, dict.fromkeys(first.ids, "owl"))
    second = task.ask()
    assert second is not None
    task.tell(first.id, {i: WORLD.truth[str(i)] for i in first.ids})
    task.save(tmp_path / "task")
    (tmp_path / "task" / "cache.safetensors").unlink()
    again = Adaptation.load(tmp_path / "task")
    assert again.ask() == task.ask()
    for mine, other in zip(task.rounds, again.rounds, strict=True):
        assert {k: v.tolist() for k, v in mine.state().items()} == {
            k: v.tolist() for k, v in other.state().items()
        }
    assert again.journal == task.journal
    WORLD.answer_all(task)
    WORLD.answer_all(again)
    assert file_bytes(again.finish(), tmp_path) == file_bytes(task.finish(), tmp_path)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "tell", "tell", "tell", "skip", "repeat", "correct", "save"]),
        st.integers(0, 1000),
        st.sampled_from(["cat", "dog", "owl", "новый класс"]),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS, budget=st.integers(1, 12))
def test_labels_are_never_lost_or_charged_twice(operations: list[tuple[str, int, str]], budget: int):
    """Random tells, skips, repeats, corrections and restarts against a plain dict of what was said."""
    with tempfile.TemporaryDirectory() as folder:
        world: World = WORLD
        task = world.adapt(agent("cual"), budget=budget)
        said: dict[object, object] = {}
        where: dict[object, str] = {}
        query = task.ask()
        for operation, number, label in operations:
            if operation == "ask":
                query = task.ask()
                assert query is None or not said.keys() & set(query.ids)
            elif operation in ("tell", "skip") and query is not None:
                sample = query.ids[number % len(query.ids)]
                answer = SKIP if operation == "skip" else label
                try:
                    task.tell(query.id, {sample: answer})
                except BudgetExceeded:
                    # only an answer in place of an earlier skip can find no room
                    assert said[sample] is SKIP
                    continue
                said[sample], where[sample] = answer, query.id
            elif operation in ("repeat", "correct") and said:
                sample = list(said)[number % len(said)]
                answer = said[sample] if operation == "repeat" else label
                try:
                    task.tell(where[sample], {sample: answer})
                except BudgetExceeded:
                    assert said[sample] is SKIP
                    assert answer is not SKIP
                    continue
                said[sample] = answer
            elif operation == "save":
                task.save(folder)
                task = Adaptation.load(folder)
            assert task.answers == said
            assert task.labels_used == sum(a is not SKIP for a in said.values()) <= task.budget
            assert sum(row["charged"] for row in task.ledger) == task.labels_used
        task.stop()
        after = task.finish()
        named = {a for a in said.values() if a is not SKIP}
        assert named <= set(after.classes_.tolist())
        assert set(after.classes_.tolist()) <= named | {"cat", "dog"}

"""What heads learn of what is accepted: who said it, how much it counts, and in which parts."""

import numpy as np
import pytest
import torch

from cual.data.pool import Pool
from cual.heads import CCIC, MLP, Ridge
from cual.learners import Accepted, base
from cual.learners.base import in_lessons, long_term_lesson, samples_of
from worlds import World

N_OLD = 2


def accepted(n: int = 30, weights: bool = False) -> Accepted:
    """Answers and beliefs about old and new classes; rows are tens of their places."""
    rng = np.random.default_rng(n)
    return Accepted(
        10 * np.arange(n),
        rng.integers(0, 2 * N_OLD, n),
        rng.integers(0, 2, n),
        rng.uniform(0.1, 1, n).astype(np.float32) if weights else None,
    )


def test_what_is_accepted_is_told_apart_by_who_said_it_and_whether_it_is_new() -> None:
    given = accepted()
    kinds = {(h, new): [] for h in (0, 1) for new in (False, True)}
    for row, c, human in zip(given.rows.tolist(), given.classes.tolist(), given.human.tolist(), strict=True):
        kinds[human, c >= N_OLD].append((row, c))

    def pairs(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
        return list(zip(found[0].tolist(), found[1].tolist(), strict=True))

    assert all(kinds.values())
    assert pairs(given.of(True, N_OLD)) == kinds[1, True]
    assert pairs(given.of(False, N_OLD)) == kinds[0, True]
    assert pairs(given.old(N_OLD)) == kinds[1, False]
    assert sorted(pairs(given.believed())) == sorted(kinds[0, False] + kinds[0, True])
    nothing = Accepted.nothing()
    assert [len(nothing.rows), len(nothing.classes), len(nothing.human)] == [0, 0, 0]


def test_answers_that_weigh_less_have_targets_that_do() -> None:
    given = accepted(weights=True)
    pool = Pool(np.random.default_rng(0).normal(0, 1, (300, 4)).astype(np.float32))
    found = samples_of(pool, given, torch.device("cpu"), 6, first=-1)
    assert found.y.shape == (30, 6)
    for target, c, weight in zip(found.y, given.classes, given.weights, strict=True):
        assert target.tolist() == [weight if i == c + 1 else 0 for i in range(6)]
    assert torch.equal(found.X, pool.take(given.rows))
    believed = given.only(given.human == 0)
    assert samples_of(pool, believed, torch.device("cpu"), 6).y.tolist() == believed.classes.tolist()
    unweighted = accepted()
    assert samples_of(pool, unweighted, torch.device("cpu"), 6).y.tolist() == unweighted.classes.tolist()


def test_the_long_term_lesson_holds_each_source_apart(world: World) -> None:
    agent, pool, given = world.agent(), Pool(world.pool), accepted(7)
    given = Accepted(given.rows // 10, given.classes, given.human)
    lesson = long_term_lesson(agent, pool, given, 4)
    for source, human, new in ((lesson.queried, (1,), (True,)), (lesson.old, (1,), (False,)),
                               (lesson.pseudo, (0,), (True, False))):  # fmt: skip
        chosen = [h in human and (c >= N_OLD) in new for h, c in zip(given.human, given.classes, strict=True)]
        assert source.y.tolist() == given.classes[chosen].tolist()
        assert torch.equal(source.X, pool.take(given.rows[chosen]))
    assert torch.equal(lesson.replay.y, agent.replay.samples().y)
    assert lesson.unlabelled is None
    unlabelled = long_term_lesson(world.agent(method="ccic"), pool, given, 4).unlabelled
    rest = [i for i in range(len(world.pool)) if i not in given.rows]
    assert torch.equal(unlabelled, pool.take(np.array(rest)))


@pytest.mark.parametrize(("chunk_bytes", "step"), [(0, 4), (16 * 11, 8), (16 * 12, 12), (16 * 400, 400)])
def test_a_head_that_keeps_what_it_learned_learns_in_parts(
    chunk_bytes: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen bytes a sample, in blocks of four: new answers come first, old ones last."""
    monkeypatch.setattr(base, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(base, "TOGETHER", 4)
    for n in (9, 30, 41):
        given = accepted(n, weights=True)
        believed = [place for place in range(n) if given.human[place] == 0]
        parts = in_lessons(given, Ridge(), 4, N_OLD)
        places = [(part.rows // 10).tolist() for part in parts]
        if len(believed) <= step:
            assert places == [list(range(n))]
            continue
        expected = [believed[start : start + step] for start in range(0, len(believed), step)]
        answers = [place for place in range(n) if given.human[place] == 1]
        expected[0] = [p for p in answers if given.classes[p] >= N_OLD] + expected[0]
        expected[-1] = expected[-1] + [p for p in answers if given.classes[p] < N_OLD]
        assert places == expected
        for part, mine in zip(parts, places, strict=True):
            assert part.classes.tolist() == given.classes[mine].tolist()
            assert part.weights.tolist() == given.weights[mine].tolist()


def test_other_heads_learn_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_BYTES", 0)
    monkeypatch.setattr(base, "TOGETHER", 4)
    given = accepted(40)
    for head in (MLP(), CCIC()):
        assert [part.rows.tolist() for part in in_lessons(given, head, 4, N_OLD)] == [given.rows.tolist()]


def test_parts_are_learned_one_after_the_other_and_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """To what one lesson gives; how far it is, is told after each of several."""
    agent = world.agent(method="cual-plus")
    truth = list(world.truth.values())
    classes = np.array([agent.names.names.index(name) if name in agent.names.names else 2 for name in truth])
    given = Accepted(np.arange(len(truth)), classes, (np.arange(len(truth)) % 5 == 0).astype(np.int64))
    assert {*classes} == {0, 1, 2}
    whole = agent._taught(Pool(world.pool), given, 3, None, None)
    monkeypatch.setattr(base, "CHUNK_BYTES", 0)
    monkeypatch.setattr(base, "TOGETHER", 16)
    told: list[tuple[int, int]] = []
    parts = agent._taught(Pool(world.pool), given, 3, None, lambda *at: told.append(at))
    n = len(in_lessons(given, agent.head, agent.width, 2))
    assert n > 2
    assert told == [(done, n) for done in range(1, n + 1)]
    X = torch.from_numpy(world.pool).float()
    torch.testing.assert_close(parts.logits(X), whole.logits(X), rtol=1e-3, atol=1e-3)

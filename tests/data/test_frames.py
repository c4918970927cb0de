"""DataFrames in place of arrays: their index as ids, from `fit` to `finish`, and what does not fit together."""

import numpy as np
import pandas as pd
import pytest

from cual import Agent
from cual.data.pool import Pool
from cual.errors import BadFeatures, BadLabels, DuplicateIds
from worlds import SMALL, World, file_bytes


def test_frames_give_the_same_agent_as_arrays(world: World, tmp_path):
    agent = Agent.fit(pd.DataFrame(world.X), pd.Series(world.y), **SMALL)
    assert file_bytes(agent, tmp_path) == file_bytes(world.agent(), tmp_path)
    frame = pd.DataFrame(world.pool, index=world.ids)
    answers = pd.Series(world.truth)
    task = agent.adapt(frame, 8)
    while query := task.ask():
        task.tell(query.id, answers[list(query.ids)])
    expected = world.answer_all(world.adapt()).finish()
    assert file_bytes(task.finish(), tmp_path) == file_bytes(expected, tmp_path)
    assert agent.predict(frame).tolist() == agent.predict(world.pool).tolist()


def test_the_index_of_a_frame_is_its_ids():
    frame = pd.DataFrame(np.eye(4))
    assert list(Pool(frame).ids) == [0, 1, 2, 3]
    assert list(Pool(frame[2:]).ids) == [2, 3]
    assert list(Pool(frame.set_index(pd.Index(["a", "b", "c", "d"], dtype="string"))).ids) == [
        "a",
        "b",
        "c",
        "d",
    ]
    assert list(Pool(frame, ids=["w", "x", "y", "z"]).ids) == ["w", "x", "y", "z"]
    with pytest.raises(DuplicateIds, match="'a' stands in pool rows 0 and 1"):
        Pool(frame.set_index(pd.Index(["a", "a", "c", "d"])))


def test_columns_that_may_have_gaps_are_numbers_and_gaps_are_named():
    frame = pd.DataFrame(np.eye(3)).convert_dtypes()
    assert len(Pool(frame)) == 3
    frame.iloc[1, 0] = pd.NA
    with pytest.raises(BadFeatures, match="row 1 holds NaN"):
        Pool(frame)
    with pytest.raises(BadFeatures, match="holds object, not real numbers"):
        Pool(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))


def test_labels_in_another_order_are_refused(world: World):
    X, y = pd.DataFrame(world.X), pd.Series(world.y)
    with pytest.raises(BadLabels, match="first in row 0: 0 and 59"):
        Agent.fit(X, y[::-1], **SMALL)
    agent = world.agent()
    with pytest.raises(BadLabels, match="first in row 0: 0 and 59"):
        agent.teach(X, y[::-1])
    assert agent.teach(X, y).version == 1
    twice = pd.concat([X[:30], X[:30]])  # an index that names nothing is none
    assert agent.teach(twice, ["cat"] * 60).version == 1

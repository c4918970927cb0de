"""scikit-learn's contract, and what the bridge adds to it."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.utils.validation import check_is_fitted

from cual import Agent
from cual.bridges.sklearn import CualClassifier, FittedClassifier, FittedDetector
from cual.errors import BadFeatures, BadOption
from cual.methods import methods
from worlds import World

pytestmark = pytest.mark.more

CHECKS = """
import json, torch
from sklearn.utils.estimator_checks import check_estimator
from cual.bridges.sklearn import CualClassifier

torch.set_num_threads(1)
done = check_estimator(CualClassifier(), on_skip=None, on_fail=None)
print(json.dumps([(check["check_name"], check["status"], str(check["exception"])) for check in done]))
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices: a second thread only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small(**changes: Any) -> CualClassifier:
    return CualClassifier(**{"method": "cual", "hidden": 16, "epochs": 3, "buffer": 60, **changes})


def test_every_check_of_scikit_learn_passes() -> None:
    """In a process of its own: scipy reads SCIPY_ARRAY_API once, and without it a check would be skipped."""
    surroundings = os.environ | {"SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-W", "ignore", "-c", CHECKS]
    ran = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    checks = json.loads(ran.stdout)
    assert len(checks) > 40
    assert [
        check for check in checks if check[1] != "passed" and "pandas is not installed" not in check[2]
    ] == []


def test_it_is_the_agent_of_the_same_options(world: World) -> None:
    clf = small(random_state=3).fit(world.X, world.y)
    agent = world.agent(seed=3)
    assert clf.classes_.tolist() == agent.classes_.tolist()
    assert clf.predict(world.pool).tolist() == agent.predict(world.pool).tolist()
    np.testing.assert_allclose(clf.predict_proba(world.pool), agent.predict_proba(world.pool), atol=1e-5)
    np.testing.assert_array_equal(clf.novelty(world.pool), agent.novelty(world.pool))


@pytest.mark.parametrize(
    ("y", "told"),
    [
        (np.repeat([7, 3], 30), 5),
        (np.repeat([7, 3], 30).astype(np.uint8), 5),
        (np.repeat([7.0, 3.0], 30), 5),
        (np.repeat(["mouse", "cat"], 30), "hippopotamus"),
        (np.repeat(np.array(["mouse", "cat"], dtype=object), 30), "hippopotamus"),
    ],
)
def test_labels_keep_their_type_through_an_adaptation(world: World, y: np.ndarray, told: Any) -> None:
    old = {"cat": y[0].item() if hasattr(y[0], "item") else y[0], "dog": y[-1]}
    clf = small().fit(world.X, y)
    assert clf.classes_.tolist() == np.unique(y).tolist()
    task = clf.adapt(world.pool, 8, ids=world.ids)
    plain = {name: label if isinstance(label, str) else int(label) for name, label in old.items()}
    while query := task.ask():
        task.tell(query.id, {i: plain.get(world.truth[i], told) for i in query.ids})
    clf.adopt(task.finish())
    assert clf.classes_.tolist() == sorted([*np.unique(y).tolist(), told])
    assert clf.classes_.dtype.kind == y.dtype.kind
    novel = np.array([world.truth[i] not in old for i in world.ids])
    assert set(clf.predict(world.pool[novel]).tolist()) >= {told}
    best = clf.classes_[clf.predict_proba(world.pool).argmax(axis=1)]
    assert clf.predict(world.pool).tolist() == best.tolist()


def test_a_class_that_the_labels_type_cannot_hold_widens_it(world: World) -> None:
    clf = small().fit(world.X, [label == "dog" for label in world.y])
    assert clf.classes_.tolist() == [False, True]
    task = clf.adapt(world.pool, 8, ids=world.ids)
    while query := task.ask():
        task.tell(query.id, {i: {"cat": 0, "dog": 1}.get(world.truth[i], 2) for i in query.ids})
    assert clf.adopt(task.finish()).classes_.tolist() == [0, 1, 2]


def test_an_adaptation_leaves_the_classifier_until_it_is_adopted(world: World) -> None:
    clf = small().fit(world.X, world.y)
    before = clf.predict(world.pool).tolist()
    after = world.answer_all(clf.adapt(world.pool, 8, ids=world.ids)).finish()
    assert clf.predict(world.pool).tolist() == before
    assert clf.adopt(after).agent_.version == 1


def test_an_agent_on_other_features_is_refused(world: World) -> None:
    clf = small().fit(world.X, world.y)
    narrow = Agent.fit(world.X[:, :5], world.y, "cual", head_options={"hidden": 4})
    with pytest.raises(BadFeatures, match="5 wide"):
        clf.adopt(narrow)


def test_pipeline_and_grid_search_on_digits() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 4], y[y < 4]
    pipe = make_pipeline(MinMaxScaler(), CualClassifier("cual", hidden=64, epochs=3))
    search = GridSearchCV(pipe, {"cualclassifier__epochs": [1, 20], "cualclassifier__method": ["cual"]}, cv=3)
    search.fit(X[::2], y[::2])
    assert search.best_params_["cualclassifier__epochs"] == 20
    assert search.score(X[1::2], y[1::2]) > 0.95


def test_save_and_load_keep_the_predictions(world: World, tmp_path: Path) -> None:
    clf = small(random_state=5).fit(world.X, world.y)
    clf.save(tmp_path / "agent")
    again = CualClassifier.load(tmp_path / "agent")
    assert again.predict_proba(world.pool).tolist() == clf.predict_proba(world.pool).tolist()
    assert again.random_state == 5
    assert again.n_features_in_ == world.X.shape[1]


def test_options_reach_the_method(world: World) -> None:
    method = methods["er-entropy"].but(head_options={"epochs": 2, "hidden": 8})
    clf = CualClassifier(method, hidden=4, options={"first_share": 0.1}).fit(world.X, world.y)
    assert clf.agent_.method.first_share == 0.1
    assert (clf.agent_.method.head.epochs, clf.agent_.method.head.hidden) == (2, 4)
    with pytest.raises(BadOption, match="alfa"):
        CualClassifier(options={"alfa": 0.1}).fit(world.X, world.y)


@pytest.mark.parametrize(
    ("option", "value", "reached"),
    [
        ("method", "er-margin", lambda agent: agent.method.name),
        ("random_state", 7, lambda agent: agent.seed),
        ("buffer", 33, lambda agent: agent.method.buffer),
        ("hidden", 5, lambda agent: agent.method.head.hidden),
        ("epochs", 2, lambda agent: agent.method.head.epochs),
        ("options", {"stds": 1.5}, lambda agent: {"stds": agent.method.stds}),
        ("device", "cpu", lambda agent: str(agent.device)),
    ],
)
def test_every_option_reaches_the_agent(world: World, option: str, value: object, reached) -> None:
    clf = small(**{option: value}).fit(world.X, world.y)
    assert reached(clf.agent_) == value
    assert set(clf.get_params()) == {
        "method",
        "random_state",
        "buffer",
        "hidden",
        "epochs",
        "options",
        "device",
    }


@pytest.mark.parametrize("option", ["hidden", "epochs"])
def test_the_default_method_says_that_it_has_no_hidden_layer(world: World, option: str) -> None:
    with pytest.raises(
        BadOption, match=f"the head 'ridge' has no {option}; it has shrink, expand, even, widest, scarce"
    ):
        CualClassifier(**{option: 3}).fit(world.X, world.y)


def test_without_a_random_state_fits_differ(world: World) -> None:
    states = [None, None, np.random.RandomState(0), np.random.RandomState(0)]
    drawn = [small(random_state=state).fit(world.X, world.y).agent_.seed for state in states]
    assert drawn[0] != drawn[1]
    assert drawn[2] == drawn[3]


@pytest.fixture
def agent(world: World) -> Agent:
    return world.agent(method="cual-plus")


def test_pickles_hold_the_agent_as_its_file(world: World, tmp_path: Path) -> None:
    clf = small(random_state=5).fit(world.X, world.y)
    clf.save(tmp_path / "agent")
    pickled = pickle.dumps(clf)
    assert (tmp_path / "agent").read_bytes() in pickled
    assert b"torch" not in pickled.replace((tmp_path / "agent").read_bytes(), b"")
    again = pickle.loads(pickled)
    assert again.predict_proba(world.pool).tolist() == clf.predict_proba(world.pool).tolist()
    assert pickle.loads(pickle.dumps(small())).get_params() == small().get_params()


@pytest.mark.parametrize("held", ["path", "bytes"])
def test_an_agent_is_a_fitted_classifier(held: str, world: World, agent: Agent, tmp_path: Path) -> None:
    agent.save(tmp_path / "agent")
    clf = FittedClassifier(tmp_path / "agent") if held == "path" else FittedClassifier.of(agent)
    check_is_fitted(clf)
    assert clf.classes_.tolist() == ["cat", "dog"]
    assert clf.n_features_in_ == 16
    for fitted in (clf, clone(clf), clone(clf).fit(world.X[:2], ["dog", "cat"])):
        assert fitted.get_params() == clf.get_params()
        assert fitted.predict(world.pool).tolist() == agent.predict(world.pool).tolist()
        np.testing.assert_allclose(fitted.predict_proba(world.pool), agent.predict_proba(world.pool), atol=1e-5)
        np.testing.assert_allclose(fitted.score_samples(world.pool), -agent.novelty(world.pool), rtol=1e-4)
    joblib.dump(clf, tmp_path / "clf.joblib")
    assert joblib.load(tmp_path / "clf.joblib").predict(world.pool).tolist() == clf.predict(world.pool).tolist()
    pickled = pickle.dumps(clf)
    assert b"torch" not in pickled.replace((tmp_path / "agent").read_bytes(), b"")
    assert len(pickled) < 1000 or held == "bytes"
    assert len(repr(clf)) < 300
    assert cross_val_score(clf, world.X, world.y, cv=2).min() > 0.9


def test_a_fitted_classifier_follows_its_parameters(world: World, agent: Agent, tmp_path: Path) -> None:
    later = world.answer_all(agent.adapt(world.pool, 8, ids=world.ids)).finish()
    clf = FittedClassifier.of(agent)
    assert len(clf.classes_) == 2
    clf.set_params(agent=FittedClassifier.of(later).agent)
    assert clf.classes_.tolist() == sorted(later.classes_.tolist())
    pipe = make_pipeline(FunctionTransformer(), clf)
    assert pipe.predict(world.pool).tolist() == later.predict(world.pool).tolist()
    with pytest.raises(ValueError, match="5 features"):
        clf.predict(world.pool[:, :5])
    with pytest.raises(BadOption, match=r"FittedClassifier\.of makes one"):
        FittedClassifier(agent).fit()


def test_an_agent_is_a_fitted_detector(world: World, agent: Agent) -> None:
    detector = clone(FittedDetector.of(agent))
    novelty = agent.novelty(world.pool)
    np.testing.assert_allclose(
        detector.decision_function(world.pool), agent.threshold.value - novelty, atol=1e-3
    )
    clear = np.abs(novelty - agent.threshold.value) > 1e-3
    unlike = detector.predict(world.pool) == -1
    assert unlike[clear].tolist() == (novelty > agent.threshold.value)[clear].tolist()
    assert 0 < unlike.mean() < 1
    assert set(detector.fit_predict(world.pool)) == {-1, 1}
    eager = detector.set_params(false_alarms=0.5)
    assert eager.offset_ == -agent.threshold_at(0.5).value
    assert (eager.predict(world.pool) == -1).sum() > unlike.sum()

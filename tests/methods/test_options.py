"""Options of a method: a wrong one is refused where it is given, with what was expected and what came."""

import json
import logging
import math
from typing import Any

import numpy as np
import pytest
import torch

from cual import Agent
from cual.errors import BadOption, UnknownName
from cual.heads import heads
from cual.methods import Method, methods
from cual.uncertainty import uncertainties
from worlds import SMALL, World

CUAL = methods["cual"]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("alpha", "x", "alpha is 'x', but takes a number"),
        ("alpha", True, "alpha is True, but takes a number"),
        ("alpha", None, "alpha is None"),
        ("alpha", float("nan"), "alpha is nan, but takes a number"),
        ("alpha", 1.5, "alpha lies between 0 and 1, but is 1.5"),
        ("stds", [2], "stds is .2., but takes a number"),
        ("budget_factor", -1, "budget_factor lies at 0 or above, but is -1"),
        ("validation_share", 0.6, "validation_share lies between 0 and 0.5"),
        ("rounds", 2.5, "rounds is 2.5, but takes a whole number"),
        ("iterations", True, "rounds is True, but takes a whole number"),
        ("iterations", 0, "rounds is at least 1, not 0"),
        ("buffer", "many", "buffer is 'many', but takes a whole number"),
        ("short_epochs", None, "learner 'novelty': epochs is None"),
        ("unnamed", 1, "unnamed is 1, but takes True or False"),
        ("ends_below_threshold", "no", "ends_below_threshold is 'no', but takes True or False"),
        ("head", 3, "int is not registered as head"),
        ("then", ["top"], "list is not registered as acquisition strategy"),
        ("believe", 3, "int is not registered as rule of belief"),
        ("head_options", 3, "head_options is 3, but takes options by name"),
        ("head_options", {1: 2}, "head_options is .1: 2., but takes options by name"),
        ("uncertainty_options", [("variance", 1)], "uncertainty_options is .*, but takes options by name"),
    ],
)
def test_a_wrong_value_is_named(world: World, option: str, value: Any, said: str) -> None:
    with pytest.raises((BadOption, UnknownName), match=said):
        CUAL.but(**{option: value})
    with pytest.raises((BadOption, UnknownName), match=said):
        Agent.fit(world.X, world.y, "cual", **{option: value})


@pytest.mark.parametrize(
    ("head", "given", "said"),
    [
        ("mlp", {"hiden": 3}, "the head 'mlp' has no hiden; it has hidden, epochs, batch, lr"),
        ("linear", {"hidden": 3}, "the head 'linear' has no hidden; it has epochs, batch, lr"),
        ("mlp", {"width": 3}, "has no width"),
        ("mlp", {"hidden": 0}, "head 'mlp': hidden is at least 1, not 0"),
        ("mlp", {"hidden": "wide"}, "head 'mlp': hidden is 'wide', but takes a whole number"),
        ("mlp", {"epochs": -1}, "head 'mlp': epochs is at least 1, not -1"),
        ("ccic", {"batch": 0.5}, "head 'ccic': batch is 0.5"),
        ("mlp", {"lr": 0}, "head 'mlp': lr lies above 0, but is 0"),
    ],
)
def test_options_of_a_head_are_checked(head: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        CUAL.but(head=head, head_options=given)


@pytest.mark.parametrize(
    ("uncertainty", "given", "said"),
    [
        ("fre", {"k": 3}, "the uncertainty 'fre' has no k; it has variance"),
        ("knn", {"variance": 0.9}, "'knn' has no variance; it has k, cap"),
        ("fre", {"variance": 2}, "uncertainty 'fre': variance lies between 0 and 1, and not at 0, but is 2"),
        ("fre", {"variance": 0}, "variance lies between 0 and 1, and not at 0, but is 0"),
        ("mahalanobis", {"variance": "all"}, "variance is 'all', but takes a number"),
        ("knn", {"k": 0}, "k is at least 1, not 0"),
        ("knn", {"cap": 1.5}, "cap is 1.5, but takes a whole number"),
    ],
)
def test_options_of_an_uncertainty_are_checked(uncertainty: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        CUAL.but(uncertainty=uncertainty, uncertainty_options=given)


@pytest.mark.parametrize("name", methods.names())
def test_every_option_of_every_method_can_be_changed_by_its_name_and_survives_a_file(name: str) -> None:
    method = methods[name]
    for option, value in method.options().items():
        part, _, inner = option.partition(".")
        changed = method.but(**{part: {inner: value} if inner else value})
        assert changed == method, option
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and inner:
            other = method.but(**{part: {inner: (value / 2 or 0.5) if isinstance(value, float) else value + 1}})
            assert other != method, option
            assert Method.from_json(json.loads(json.dumps(other.to_json()))) == other, option


@pytest.mark.parametrize(
    ("method", "option", "said"),
    [
        ("cual-plus", {"alpha": 0.1}, "'likelier-than-not' has no alpha; it has share, precision, most_old"),
        ("cual-plus", {"short_epochs": 3}, "'prototypes' has no epochs"),
        ("cual-plus", {"uncertainty": "knn"}, "'prototypes' has no uncertainty"),
        ("cual-plus", {"head_options": {"epochs": 3}}, "the head 'ridge' has no epochs"),
        ("er-entropy", {"alpha": 0.1}, "er-entropy believes nothing without asking, so alpha has no effect"),
        ("er-entropy", {"short_batch": 3}, "'hesitation' has no batch; it has measure, epochs"),
        ("cual", {"learner": {"strange_weight": 1.0}}, "'novelty' has no strange_weight"),
        ("cual", {"pseudo": "", "alpha": 0.1}, "without believe there is no alpha"),
        ("cual", {"rounds": 3, "iterations": 3}, "rounds is given twice"),
    ],
)
def test_an_option_that_a_method_does_not_use_is_refused(
    method: str, option: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        methods[method].but(**option)


def test_a_part_within_a_part_is_changed_by_its_options() -> None:
    changed = CUAL.but(learner={"uncertainty": {"variance": 0.9}, "epochs": 7})
    assert (changed.learner.uncertainty.variance, changed.learner.epochs, changed.learner.batch) == (0.9, 7, 16)
    other = changed.but(learner={"uncertainty": "knn"})
    assert (other.learner.uncertainty.k, other.learner.epochs) == (5, 7)
    assert CUAL.learner.epochs == 5


def test_the_names_of_release_0_1_0_mean_the_same() -> None:
    old = {"score": "margin", "pseudo": "most-certain", "alpha": 0.1, "short_epochs": 2, "iterations": 3}
    parts = {"name": "hesitation", "measure": "margin", "epochs": 2}
    new = CUAL.but(learner=parts, believe={"name": "most-certain", "alpha": 0.1}, rounds=3)
    assert CUAL.but(**old) == new
    nested = {"uncertainty": "mahalanobis", "uncertainty_options": {"variance": 0.5}}
    assert CUAL.but(**nested).learner.uncertainty.variance == 0.5


WRITTEN: dict[str, Any] = {
    "name": "cual",
    "summary": "as a file of format 1 has it",
    "first_share": 0.4,
    "believes_last": False,
    "stds": 2.0,
    "ends_below_threshold": True,
    "validation_share": 0.1,
    "buffer": 60,
    "budget_factor": 1.0,
    "score": "novelty",
    "uncertainty": "knn",
    "uncertainty_options": {"k": 3},
    "short_epochs": 7,
    "short_batch": 8,
    "unnamed": False,
    "first": "novel",
    "then": "ambiguous",
    "pseudo": "most-novel",
    "alpha": 0.3,
    "iterations": 5,
    "head": "mlp",
    "head_options": {"hidden": 16},
}
"""A method as files of format 1 have it: a row for every option, used or not."""


def read(**changed: Any) -> Method:
    method = Method.from_json({**WRITTEN, **changed})
    assert (method.rounds, method.buffer, method.head.hidden) == (5, 60, 16)
    return method


def test_a_method_of_format_1_is_read_with_the_options_that_it_used() -> None:
    method = read()
    assert (method.learner.uncertainty.k, method.learner.epochs, method.learner.batch) == (3, 7, 8)
    assert method.believe.alpha == 0.3
    assert method == read(summary=WRITTEN["summary"])
    unsure = read(score="margin", pseudo="most-certain")
    assert (unsure.learner.measure, unsure.learner.epochs, unsure.believe.alpha) == ("margin", 7, 0.3)
    assert read(pseudo="").believe is None
    assert read(pseudo=None).believe is None
    assert read(unnamed=True).learner.unnamed
    assert math.isinf(read(budget_factor=None).budget_factor)


def test_a_cual_plus_from_before_questions_were_planned_is_today_s_but_for_its_questions() -> None:
    """As it was written between release 0.1.0 and then: two strategies, and a crowd instead of a walk.

    Files say by name whom they ask, so they go on asking the medoids of a k-means.
    """
    today = methods["cual-plus"].to_json()
    crowd = {"crowd": 10, "voters": 15, "crowd_in_novelty": True, "crowd_weight": 2.0, "crowd_edge": 0.8}
    gone = ("neighbours", "walk", "strange_weight", "strange_edge", "none_of_these")
    kept = {name: value for name, value in today["learner"].items() if name not in gone}
    written = {
        **today,
        "learner": {**kept, **crowd, "few": 50},
        "first": {"name": "diverse", "candidates": 5000, "turns": 15},
        "then": {"name": "diverse-uncertain", "company": 10, "likely": 40, "candidates": 10, "turns": 15},
        "believe": {"name": "likelier-than-not", "share": 0.5, "precision": 0.0, "most_old": 2500},
    }
    asking = {"first": "diverse", "then": "diverse"}
    assert Method.from_json(written) == methods["cual-plus"].but(learner={"few": 50}, **asking)


@pytest.mark.parametrize("name", heads.names())
def test_every_head_refuses_a_name_it_does_not_have(name: str) -> None:
    with pytest.raises(BadOption, match=f"the head '{name}' has no nonsense; it has "):
        CUAL.but(head=name, head_options={"nonsense": 1})


@pytest.mark.parametrize("name", uncertainties.names())
def test_every_uncertainty_refuses_a_name_it_does_not_have(name: str) -> None:
    with pytest.raises(BadOption, match=f"the uncertainty '{name}' has no nonsense; it has "):
        CUAL.but(uncertainty=name, uncertainty_options={"nonsense": 1})


def test_numbers_of_numpy_are_numbers(world: World, tmp_path) -> None:
    given = {"alpha": np.float32(0.5), "buffer": np.int64(60), "unnamed": np.bool_(False)}
    method = CUAL.but(**given, head_options={"hidden": np.int32(16), "epochs": np.int64(3)})
    assert method == CUAL.but(alpha=0.5, buffer=60, unnamed=False, head_options=SMALL["head_options"])
    agent = Agent.fit(world.X, world.y, method, seed=np.int64(3))
    agent.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").method == method


def test_options_given_are_copied() -> None:
    given = {"hidden": 16}
    method = CUAL.but(head_options=given)
    given["hidden"] = 0
    assert method.head.hidden == 16


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": 3}, "method is 3, but takes a name or a Method"),
        ({"seed": "x"}, "seed is 'x', but takes a whole number"),
        ({"seed": -1}, "seed is at least 0, not -1"),
        ({"device": "abacus"}, "no device 'abacus' here; use cpu"),
    ],
)
def test_what_fit_takes_beside_options_is_checked(world: World, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Agent.fit(world.X, world.y, **arguments)


def twelve_dimensions(n: int) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(2 * n, 12)).astype(np.float32), ["a"] * n + ["b"] * n


def test_subspaces_without_an_outside_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    X, y = twelve_dimensions(500)
    with caplog.at_level(logging.WARNING, logger="cual"):
        agent = Agent.fit(X, y, **SMALL)
    assert np.median(agent.novelty(X)) < 1e-3
    (record,) = caplog.records
    assert record.name.split(".")[0] == "cual"
    for said in ("all 12 dimensions of 2 of 2 classes", '"variance": 0.9', '"uncertainty": "mahalanobis"'):
        assert said in record.getMessage()


@pytest.mark.parametrize(
    "remedy",
    [{"uncertainty_options": {"variance": 0.9}}, {"uncertainty": "mahalanobis"}, {"uncertainty": "knn"}],
)
def test_the_remedies_end_the_warning(remedy: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    X, y = twelve_dimensions(500)
    agent = Agent.fit(X, y, **SMALL, **remedy)
    assert caplog.records == []
    assert np.median(agent.novelty(X)) > 1e-2


def test_few_samples_leave_an_outside(caplog: pytest.LogCaptureFixture) -> None:
    Agent.fit(*twelve_dimensions(10), **SMALL)
    assert caplog.records == []


def test_a_read_only_memory_map_is_saved_without_a_warning(
    world: World, tmp_path, recwarn: pytest.WarningsRecorder
) -> None:
    np.save(tmp_path / "pool.npy", world.pool)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else torch says it once per process, perhaps long before this test
    try:
        world.agent().adapt(mapped, 5).save(tmp_path / "task")
    finally:
        torch.set_warn_always(always)
    assert [str(w.message) for w in recwarn] == []


def test_every_option_of_a_method_is_listed_under_the_name_that_changes_it() -> None:
    """Those of its parts as well; its name and summary are none."""
    listed = CUAL.options()
    assert {"learner.uncertainty", "head.hidden", "believe.alpha", "rounds", "first_share"} <= listed.keys()
    assert not {"name", "summary", "learner", "head"} & listed.keys()
    assert listed["rounds"] == CUAL.rounds
    assert listed["head.hidden"] == CUAL.head.hidden

"""Methods as earlier releases spelled them: flags and names instead of parts, other defaults. They still load.

Everything that knows the old names is here; when they are no longer taken, this file goes.
"""

from collections.abc import Mapping
from typing import Any

from cual import options as check
from cual.errors import BadOption
from cual.heads import heads

_SCORES: Mapping[str, Mapping[str, Any]] = {
    "novelty": {"name": "novelty"},
    "entropy": {"name": "hesitation", "measure": "entropy"},
    "margin": {"name": "hesitation", "measure": "margin"},
    "prototypes": {"name": "prototypes"},
}
_INNER = {
    "alpha": ("believe", "alpha"),
    "unnamed": ("learner", "unnamed"),
    "short_epochs": ("learner", "epochs"),
    "short_batch": ("learner", "batch"),
}
"""Options that moved into a part."""
_GONE = {
    "learner": {"crowd", "voters", "crowd_in_novelty", "crowd_weight", "crowd_edge"},
    "first": {"company", "likely", "candidates", "others", "turns"},
    "then": {"company", "likely", "candidates", "others", "turns"},
    "believe": {"share"},
}
"""Options of cual-plus's parts before a walk told what is novel, and questions were planned."""


_DIVERSE = {"diverse-uncertain": "diverse"}
"""Strategies that another one has replaced."""


_UNAWARE = {"shrink": 0.5, "even": 0.25, "scarce": 0.0}
"""What the closed-form head was set to before it knew how few its samples are."""


def _head_then(head: Mapping[str, Any]) -> dict[str, Any]:
    """A head that was written before some of its options had the defaults of now.

    >>> _head_then({"name": "ridge", "shrink": 1.0})
    {'shrink': 1.0, 'even': 0.25, 'scarce': 0.0, 'name': 'ridge'}
    >>> _head_then({"name": "mlp", "hidden": 16})
    {'name': 'mlp', 'hidden': 16}
    """
    unaware = head["name"] == "ridge" and "scarce" not in head
    return {**(_UNAWARE if unaware else {}), **head}


def _unplanned(row: Mapping[str, Any]) -> dict[str, Any]:
    """A method whose later questions were those of `diverse-uncertain`, as it is written now."""
    learner = {name: value for name, value in row["learner"].items() if name != "second_space"}
    given = {**row, "learner": learner, "head": _head_then(row["head"])}
    if row["then"].get("name") in _DIVERSE or not _GONE["learner"].isdisjoint(row["learner"]):
        for part, gone in _GONE.items():
            if row[part] is not None:
                given[part] = {name: value for name, value in row[part].items() if name not in gone}
                given[part]["name"] = _DIVERSE.get(given[part]["name"], given[part]["name"])
    return given


def translated(changed: Mapping[str, Any], head: Any) -> dict[str, Any]:
    """Options as they are called now; `head` is the one that they change.

    >>> from cual.heads import MLP
    >>> new = translated({"alpha": 0.1, "iterations": 3, "head_options": {"hidden": 16}}, MLP())
    >>> new["rounds"], new["believe"], new["head"].hidden
    (3, {'alpha': 0.1}, 16)
    """
    given = dict(changed)
    plain: dict[str, Any] = {}
    if "iterations" in given:
        plain["rounds"] = given.pop("iterations")
    if "pseudo" in given:
        plain["believe"] = given.pop("pseudo")
    if "score" in given:
        score = given.pop("score")
        if score not in _SCORES:
            raise BadOption(f"score is one of {', '.join(_SCORES)}, not {score!r}")
        plain["learner"] = dict(_SCORES[score])
    for name, (part, option) in _INNER.items():
        if name in given:
            _into(plain, part, {option: given.pop(name)})
    if "uncertainty" in given or "uncertainty_options" in given:
        _into(plain, "learner", {"uncertainty": _uncertainty(given)})
    if "head_options" in given:
        plain["head"] = _head(given, head)
    for name, value in given.items():
        if name in plain:
            raise BadOption(f"{name} is given twice, by its name and by an earlier one")
        plain[name] = value
    return plain


def _into(plain: dict[str, Any], part: str, options: Mapping[str, Any]) -> None:
    """Add options of a part to what is changed in it already."""
    before = plain.get(part, {})
    if before is None or before == "":
        raise BadOption(f"without {part} there is no {', '.join(options)}")
    plain[part] = {**({"name": before} if isinstance(before, str) else before), **options}


def _uncertainty(given: dict[str, Any]) -> Any:
    """Options that were given replaced all of the uncertainty's, as those of a head did."""
    name = given.pop("uncertainty", None)
    options = given.pop("uncertainty_options", None)
    if options is None:
        return name
    named = check.named("uncertainty_options", options)
    return named if name is None else {"name": name, **named}


def _head(given: dict[str, Any], head: Any) -> Any:
    name = given.pop("head", None) or heads.name_of(head)
    return heads.part({"name": name, **check.named("head_options", given.pop("head_options"))})


def read(row: Mapping[str, Any]) -> dict[str, Any]:
    """A method's JSON as it is written now. What an old one says of parts that it did not use is left out."""
    if "score" not in row:
        return _unplanned(row)
    learner: dict[str, Any] = dict(_SCORES[row["score"]])
    if learner["name"] == "novelty":
        learner["uncertainty"] = {"name": row["uncertainty"], **row["uncertainty_options"]}
        learner |= {"epochs": row["short_epochs"], "batch": row["short_batch"], "unnamed": row["unnamed"]}
    elif learner["name"] == "hesitation":
        learner["epochs"] = row["short_epochs"]
    believe = {"name": row["pseudo"]} if row["pseudo"] else None
    if believe is not None and believe["name"] != "likelier-than-not":
        believe["alpha"] = row["alpha"]
    same = (
        "name",
        "summary",
        "first_share",
        "believes_last",
        "stds",
        "ends_below_threshold",
        "validation_share",
        "buffer",
        "budget_factor",
    )
    return {
        **{name: row[name] for name in same},
        "learner": learner,
        "first": {"name": _DIVERSE.get(row["first"], row["first"])},
        "then": {"name": _DIVERSE.get(row["then"], row["then"])},
        "believe": believe,
        "rounds": row["iterations"],
        "head": _head_then({"name": row["head"], **row["head_options"]}),
    }

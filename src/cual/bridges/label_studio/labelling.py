"""What annotators see and what they say: the labelling config, tasks for questions, answers in annotations.

Text and dictionaries only; nothing is sent from here.
"""

import xml.etree.ElementTree as xml
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from cual.data.labels import SKIP, Answer, ClassNames, read_label
from cual.errors import BadLabels, BadOption
from cual.types import Label

Kind = Literal["image", "text"]
CANNOT_TELL: Final = "(cannot tell)"
"""The choice that stands for `SKIP`; no class may be called so."""
CHOICES, NEW_CLASS, SAMPLE = "class", "new_class", "sample"
"""Names of the controls, and of what they are about."""
MODEL_VERSION = "cual"
KEY = "adaptation"
"""The column of a task's data that says whose question it is."""
LONGEST_NAME = 100


@dataclass(frozen=True)
class Question:
    """One sample to ask about."""

    query: str
    round: int
    sample: Label
    score: float
    zone: str
    suggestion: Label | None
    row: int | None = None
    """Its row in the pool, where the service needs that to show it."""


def config(kind: Kind, classes: Iterable[Label]) -> str:
    """A labelling config: the sample, a choice of classes, and room for the name of a new one.

    >>> print(config("text", ["cat", "<b>"])[:98])
    <View><Header value="$sample" size="6" /><Text name="sample" value="$text" /><Choices name="class"
    """
    view = xml.Element("View")
    xml.SubElement(view, "Header", value=f"${SAMPLE}", size="6")
    shown = xml.SubElement(view, kind.capitalize(), name=SAMPLE, value=f"${kind}")
    if kind == "image":
        shown.set("maxWidth", "480px")  # so that what is asked is on the same screen
    one = {"name": CHOICES, "toName": SAMPLE, "choice": "single-radio", "showInline": "true"}
    choices = xml.SubElement(view, "Choices", one)
    for value in (*map(_choice, classes), CANNOT_TELL):
        xml.SubElement(choices, "Choice", value=value)
    asked = "or type the name of a new class and press Enter"
    room = {"name": NEW_CLASS, "toName": SAMPLE, "maxSubmissions": "1", "editable": "true", "rows": "1"}
    xml.SubElement(view, "TextArea", {**room, "placeholder": asked})
    return xml.tostring(view, encoding="unicode")


def missing(text: str, kind: Kind, classes: Iterable[Label]) -> list[str]:
    """The choices that a project's config lacks; `BadOption` if it is not one that annotators can answer in."""
    view = _parsed(text)
    choices = _choices(view)
    shown = choices.get("toName", "")
    tag = next((tag for tag in view.iter() if tag.get("name") == shown), None)
    if tag is None or tag.get("value") != f"${kind}":
        raise BadOption(f"the labelling config must show ${kind}: it has Choices about {shown!r}")
    there = {tag.get("alias") or tag.get("value") for tag in choices.iter("Choice")}
    return [value for value in (*map(_choice, classes), CANNOT_TELL) if value not in there]


def extended(text: str, values: Sequence[str]) -> str:
    """A config with more choices, before the one for "cannot tell".

    >>> before = config("image", ["cat"])
    >>> extended(before, ["owl"]) == config("image", ["cat", "owl"])
    True
    """
    view = _parsed(text)
    choices = _choices(view)
    places = [i for i, tag in enumerate(choices) if tag.get("value") == CANNOT_TELL]
    place = places[0] if places else len(choices)
    for i, value in enumerate(values):
        choices.insert(place + i, xml.Element("Choice", value=value))
    return xml.tostring(view, encoding="unicode")


def about(text: str) -> str:
    """The name of what the choices of a config are about."""
    return _choices(_parsed(text)).get("toName", SAMPLE)


def task(question: Question, kind: Kind, shown: str, key: str, to_name: str = SAMPLE) -> dict[str, Any]:
    """A Label Studio task: what is shown, the suggestion as a prediction, and whose question it is."""
    suggested = question.suggestion
    choice = {"choices": [] if suggested is None else [_choice(suggested)]}
    region = {"from_name": CHOICES, "to_name": to_name, "type": "choices", "value": choice}
    prediction = {
        "model_version": MODEL_VERSION,
        "score": confidence(question.score),
        "result": [] if suggested is None else [region],
    }
    data = {
        kind: shown,
        SAMPLE: str(question.sample),
        KEY: key,
        "round": question.round + 1,
        "zone": question.zone,
        "score": question.score,
    }
    meta = {"query": question.query, "sample": question.sample}
    return {"data": data, "meta": meta, "predictions": [prediction]}


def confidence(score: float) -> float:
    """A score as Label Studio wants it: within 0 … 1, and the lower, the less is known of the sample.

    >>> [round(confidence(s), 3) for s in (0, 1, 9, -1)]
    [0.5, 0.25, 0.05, 0.75]
    """
    # 0.5 * (1 - score / (1 + abs(score))), in an order in which rounding keeps larger scores lower
    return 0.5 / (1 + score) if score > 0 else 1 - 0.5 / (1 - score)


def answer(annotations: Iterable[Any], classes: Sequence[Label]) -> Answer | None:
    """What the annotations of one sample come to; None where there is none.

    The ground truth counts, else the one that was changed last; one that was skipped, or that says nothing,
    only if there is no other. `BadLabels` where it names what cannot be a class, or is no annotation at all.
    """
    read = [_object(annotation, "an annotation") for annotation in annotations]
    ranked = [(bool(a.get("ground_truth")), (text := _text(a)) is not None, _when(a), text) for a in read]
    if not ranked:
        return None
    text = max(ranked, key=lambda row: row[:3])[3]
    return SKIP if text is None else label(text, classes)


def label(text: str, classes: Sequence[Label]) -> Label:
    """The class that a choice stands for, or a new one that somebody typed.

    >>> label("3", [0, 1]), label(" barn  owl ", ["cat"])
    (3, 'barn owl')
    """
    known = {_choice(name): name for name in classes}
    return known[text] if text in known else read_label(text, ClassNames(tuple(classes)), LONGEST_NAME)


def _text(annotation: Mapping[str, Any]) -> str | None:
    """The text of an annotation: a name that was typed, else the choice; None for "cannot tell" and nothing."""
    if annotation.get("was_cancelled"):
        return None
    typed: list[str] = []
    chosen: list[str] = []
    for part in _listed(annotation.get("result") or [], "the result of an annotation"):
        region = _object(part, "a region")
        value = _object(region.get("value") or {}, "the value of a region")
        if region.get("from_name") == NEW_CLASS:
            text = value.get("text") or []  # older versions have a text in place of a list
            typed += _texts([text] if isinstance(text, str) else text, "a text")
        elif region.get("from_name") == CHOICES:
            chosen += _texts(value.get("choices") or [], "a choice")
    last = next((text for text in (*reversed(typed), *reversed(chosen)) if text.strip()), CANNOT_TELL)
    return None if last.strip() == CANNOT_TELL else last


def _when(annotation: Mapping[str, Any]) -> datetime:
    """When an annotation was changed; a time without a zone is UTC."""
    given = annotation.get("updated_at")
    try:
        at = datetime.fromisoformat(given)  # pyright: ignore[reportArgumentType]
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        raise BadLabels(f"an annotation was changed at {given!r:.100}, which is no time") from None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadLabels(f"{what} has fields with names, but this is {value!r:.100}")
    return cast("Mapping[str, Any]", value)


def _listed(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadLabels(f"{what} is a list, not {value!r:.100}")
    return cast("list[Any]", value)


def _texts(value: Any, what: str) -> list[str]:
    texts = _listed(value, f"{what} of an annotation")
    for text in texts:
        if not isinstance(text, str):
            raise BadLabels(f"{what} of an annotation is {text!r:.100}, which is no text")
    return texts


def _choice(name: Label) -> str:
    text = str(name)
    if text == CANNOT_TELL:
        raise BadLabels(f"no class can be called {CANNOT_TELL!r} here: that choice stands for it")
    return text


def _parsed(text: str) -> xml.Element:
    try:
        return xml.fromstring(text)
    except xml.ParseError as error:
        raise BadOption(f"the project's labelling config is no XML: {error}") from error


def _choices(view: xml.Element) -> xml.Element:
    choices = next((tag for tag in view.iter("Choices") if tag.get("name") == CHOICES), None)
    if choices is None:
        raise BadOption(
            f'the project\'s labelling config has no <Choices name="{CHOICES}">; give a project without tasks '
            "and without a config of its own, or let one be made"
        )
    return choices

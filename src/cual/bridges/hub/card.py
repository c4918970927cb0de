"""The card of an agent on the hub: what it knows, how good it is, how it came to be, its limits.

Written from the agent alone. Names in it are of others, and shown as text. Who gave answers is not said.
"""

import json
import re
from collections.abc import Iterator

import numpy as np

from cual import __version__
from cual.agent import Agent
from cual.encoders.base import is_built_in, spec_of
from cual.errors import TooFewSamples
from cual.html.markdown import line, plain
from cual.loop.evidence import known
from cual.types import Row

MOST_CLASSES = 200
"""Classes of the table; of more, the number is said."""
MOST_VERSIONS = 50
TAGS = ("cual", "active-learning", "continual-learning", "novelty-detection")
IMAGES = ("efficientnet-lite0", "swav-resnet50", "dino-vits16", "onnx:")
TEXTS = ("all-minilm-l6-v2", "st:")
_BY_NAME = re.compile(r"(hf|st):[\w.-]+/[\w.-]+(\?[\w=&.-]*)?", re.ASCII)
"""Encoders that everybody can fetch by their name on the hub."""


def model_card(agent: Agent, repo_id: str, sha256: str, license: str | None = None) -> str:
    """The card, with the metadata that the hub reads.

    Parameters
    ----------
    repo_id
        Where the agent will be.
    sha256
        Of its file.
    license
        The hub's short name of one.
    """
    parts = [
        _metadata(agent, license),
        f"# {plain(repo_id.rpartition('/')[2])}",
        _intro(agent),
        "## What it knows",
        "\n".join(_classes(agent)),
        "## How good it is",
        _quality(agent),
        "## What it takes for novel",
        _novelty(agent),
        "## How it came to be",
        _making(agent),
        "## Limits",
        _limits(agent),
        "## Use",
        _use(agent, repo_id, sha256),
    ]
    return "\n\n".join(parts) + "\n"


def pipeline_tag(encoder: str | None) -> str | None:
    """The hub's task for agents of an encoder; None where the encoder's name does not tell.

    >>> pipeline_tag("efficientnet-lite0@0123456789ab"), pipeline_tag("hf:org/clip?kind=text@0123456789ab")
    ('image-classification', 'text-classification')
    >>> pipeline_tag(None), pipeline_tag("hf:org/name@0123456789ab")
    ('tabular-classification', None)
    """
    if encoder is None:
        return "tabular-classification"
    if encoder.startswith(TEXTS) or "kind=text" in encoder:
        return "text-classification"
    if encoder.startswith(IMAGES) or "kind=image" in encoder:
        return "image-classification"
    return None


def _metadata(agent: Agent, license: str | None) -> str:
    """YAML; every value is JSON, which is YAML."""
    rows: Row = {"library_name": "cual", "tags": list(TAGS)}
    if license is not None:
        rows["license"] = license
    if (tag := pipeline_tag(agent.encoder)) is not None:
        rows["pipeline_tag"] = tag
    return "\n".join(["---", *(f"{name}: {json.dumps(value)}" for name, value in rows.items()), "---"])


def _intro(agent: Agent) -> str:
    made_of = (
        f"features of `{_code(agent.encoder)}`" if agent.encoder else "features of an encoder that is not known"
    )
    return (
        f"An agent of [cual](https://pypi.org/project/cual/): a classifier of {len(agent.names)} classes on "
        f"{made_of}, {agent.width} wide. It tells which samples are like nothing that it knows, asks people "
        "about very few of them, and learns new classes without forgetting the old ones. This is version "
        f"{agent.version}."
    )


def _classes(agent: Agent) -> Iterator[str]:
    learned = agent.learned
    if not learned.complete:
        yield "An earlier release learned some of it: counts are what is known since."
        yield ""
    yield line(["class", "labels of people", "pseudo-labels", "held out"])
    yield line(["---", "---:", "---:", "---:"])
    held_out = np.bincount(agent.verified_samples.y.cpu().numpy(), minlength=len(agent.names))
    people = np.bincount(learned.classes[learned.human], minlength=len(agent.names))
    believed = np.bincount(learned.classes[~learned.human], minlength=len(agent.names))
    for c, name in enumerate(agent.names.names[:MOST_CLASSES]):
        yield line([plain(str(name)), str(people[c]), str(believed[c]), str(held_out[c])])
    if len(agent.names) > MOST_CLASSES:
        yield ""
        yield f"And {len(agent.names) - MOST_CLASSES} classes more."


def _quality(agent: Agent) -> str:
    estimate = known(agent.verified_samples, agent.names).before(agent)
    if estimate is None:
        return "Not known: no labels were held out. `cual evaluate AGENT LABELLED` measures it."
    unseen = len(agent.names) - estimate.classes
    missing = f" Of {unseen} classes no label was held out, so it says nothing of them." if unseen else ""
    return (
        f"Accuracy, the mean over classes: {estimate} that people gave and nothing was learned from.{missing} "
        "`cual evaluate AGENT LABELLED` measures it on data of your own."
    )


def _novelty(agent: Agent) -> str:
    try:
        threshold = float(agent.threshold.value)
    except TooFewSamples:
        return "Too few samples were held out to set a threshold."
    scores = agent.known_novelty
    above = int((scores > threshold).sum())
    rate = getattr(agent.method.learner, "false_alarms", None)
    meant = f", for a rate of {100 * rate:g} % false alarms" if isinstance(rate, float) else ""
    return (
        f"A sample whose novelty is above {threshold:.4g} is probably of no known class. The threshold is set "
        f"by {len(scores)} validation samples of known classes{meant}; {above} of them lie above it. A rate "
        f"below one in {len(scores) + 1} cannot be told by so many. `agent.threshold_at(0.1)` is the threshold "
        "for a rate of 10 %."
    )


def _making(agent: Agent) -> str:
    rows = list(agent.history)
    asked = sum(row.get("labels_used", 0) for row in rows)
    believed = sum(row.get("pseudo_labels", 0) for row in rows)
    changes = "1 change" if len(rows) == 1 else f"{len(rows)} changes"
    lines = [
        f"Method `{_code(agent.method.name)}`: {plain(agent.method.summary)}. Seed {agent.seed}, replay of "
        f"{len(agent.replay)} samples, {len(agent.validation)} validation samples. Written by cual "
        f"{__version__}.",
        "",
    ]
    if rows:
        lines += [
            f"{changes} led here: {asked} answers of people, {believed} pseudo-labels.",
            "",
            line(["version", "change", "new classes", "answers", "pseudo-labels", "pool"]),
            line(["---:", "---", "---:", "---:", "---:", "---:"]),
            *(_version(row) for row in rows[-MOST_VERSIONS:]),
            "",
        ]
    else:
        lines += ["It has learned its first classes, and has not been adapted yet.", ""]
    options = json.dumps(agent.method.to_json(), indent=1, ensure_ascii=True)
    return "\n".join(
        [*lines, "<details><summary>All options</summary>", "", "```json", options, "```", "", "</details>"]
    )


def _version(row: Row) -> str:
    def count(name: str) -> str:
        return str(row.get(name, "–"))

    new = len(row.get("new_classes", ()))
    return line(
        [
            count("version"),
            plain(str(row.get("change", "adapted"))),
            str(new),
            count("labels_used"),
            count("pseudo_labels"),
            count("pool_size"),
        ]
    )


def _limits(agent: Agent) -> str:
    encoder = (
        f"- It takes features of `{_code(agent.encoder)}` and no others.\n"
        if agent.encoder
        else "- Which encoder made its features is not written down: ask who pushed it.\n"
    )
    return (
        f"{encoder}"
        "- Pseudo-labels were never seen by a person; the figure above rests on labels of people alone.\n"
        "- A class that is not in the table is at best noticed as novel, and at worst taken for one that is.\n"
        "- Figures are of data like that which it learned from. For other cameras or wordings, measure.\n"
        "- The file holds features of replayed and of validation samples, names of classes, and its history, "
        "with names of people who repaired it. Features can tell of the samples that they are of."
    )


def _use(agent: Agent, repo_id: str, sha256: str) -> str:
    spec = spec_of(agent.encoder) if agent.encoder else ""
    lines = [
        "```python",
        "# pip install 'cual[hub]'",
        "from cual import Agent",
        "",
        f"agent = Agent.from_hub({json.dumps(repo_id)}, sha256={json.dumps(sha256)})",
    ]
    if is_built_in(spec) or _BY_NAME.fullmatch(
        spec
    ):  # a card must not tell people to run code of somebody else
        lines += [
            "",
            "from cual.encoders import features_of",
            "",
            f'X = features_of("photos-or-table", {json.dumps(spec)}, fingerprint=agent.encoder).X',
        ]
    lines += ["agent.predict(X), agent.novelty(X) > agent.threshold", "```", ""]
    lines += [
        "On the command line, `cual pull` fetches it to a file for `cual predict`, `cual adapt`, `cual info`. "
        "The file is safetensors with a JSON header, never pickle; nothing that it names is downloaded or run."
    ]
    return "\n".join(lines)


def _code(text: str) -> str:
    """Text between backticks."""
    return "".join(c if c.isprintable() and c != "`" else "�" for c in text)

"""Labels that are probably wrong, by cleanlab: answers and pseudo-labels of an adaptation as a review order.

Each label is judged by a head that was not told it. Nothing here changes the adaptation: what a person makes of
the order goes through `Adaptation.correct`, `confirm` and `reject`, and `tell` for answers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cual import options
from cual.bridges.pools import needed
from cual.data.labels import ClassNames
from cual.errors import BadOption
from cual.heads import Calibrates, Head
from cual.learners import Accepted
from cual.learners.base import in_lessons, long_term_lesson
from cual.loop.adaptation import Adaptation
from cual.seeds import generator
from cual.types import AnyArray, BoolArray, Label

SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
"""Ways of ``cleanlab.rank`` to score a label: the lower, the more doubtful."""
FILTERS = (
    "prune_by_noise_rate",
    "prune_by_class",
    "both",
    "confident_learning",
    "predicted_neq_given",
    "low_normalized_margin",
    "low_self_confidence",
)
"""Ways of ``cleanlab.filter`` to tell which labels are wrong."""


@dataclass(frozen=True)
class LabelIssue:
    """What cleanlab makes of one label.

    Attributes
    ----------
    id, label
        The sample, and what was said or is believed of it.
    source
        "answer" or "pseudo-label".
    score
        How good the label is, 0 … 1; None where no other label names its class, so that nobody can tell.
    issue
        Whether it is probably wrong.
    suggestion
        What the sample is taken for without this label.
    """

    id: Label
    label: Label
    source: str
    score: float | None
    issue: bool
    suggestion: Label


def label_issues(
    task: Adaptation, *, score: str = "self_confidence", wrong: str = "prune_by_noise_rate", folds: int = 5
) -> list[LabelIssue]:
    """Answers and pseudo-labels that stand, the most doubtful first.

    Parameters
    ----------
    task
        Finished or not. `cual-plus` believes something only after its last question.
    score, wrong
        By which of `SCORES` labels are put in order, and by which of `FILTERS` they are called wrong.
    folds
        Heads that are taught, each all labels but a share of 1 / `folds`, which it then judges.
    """
    if score not in SCORES or wrong not in FILTERS:
        raise BadOption(f"score is one of {', '.join(SCORES)}, and wrong one of {', '.join(FILTERS)}")
    rank = needed("cleanlab.rank", "cleanlab", "cleanlab")
    filters = needed("cleanlab.filter", "cleanlab", "cleanlab")
    names, accepted = task.machine.settled(task.state)
    if not len(accepted.rows):
        return []
    probabilities = out_of_sample(task, accepted, names, folds)
    judged = named_by_others(accepted, len(task.agent.names))
    scores = np.full(len(accepted.rows), np.nan)
    issues = np.zeros(len(accepted.rows), np.bool_)
    if judged.any():
        labels, shares = accepted.classes[judged], probabilities[judged]
        scores[judged] = rank.get_label_quality_scores(labels, shares, method=score)
        # one process: others would import all of this again, for little
        issues[judged] = filters.find_label_issues(labels, shares, filter_by=wrong, n_jobs=1)
    order = np.lexsort((np.arange(len(scores)), np.nan_to_num(scores, nan=np.inf)))
    taken_for = probabilities.argmax(axis=1)
    return [
        LabelIssue(
            task.pool.ids[int(accepted.rows[place])],
            names.names[int(accepted.classes[place])],
            "answer" if accepted.human[place] else "pseudo-label",
            None if np.isnan(scores[place]) else float(scores[place]),
            bool(issues[place]),
            names.names[int(taken_for[place])],
        )
        for place in order.tolist()
    ]


def out_of_sample(task: Adaptation, accepted: Accepted, names: ClassNames, folds: int = 5) -> AnyArray:
    """Class probabilities (n, classes) of what was accepted, each by a head that was not told its label."""
    folds = options.whole("folds", folds, 2)
    agent, n = task.agent, len(accepted.rows)
    group = generator(agent.seed, agent.version + 1, 0, "label issues").permutation(np.arange(n) % folds)
    probabilities = np.zeros((n, len(names)))
    for fold in np.unique(group).tolist():
        left = group == fold
        head = _taught(task, accepted.only(~left), len(names))
        factor = head.sureness(agent.validation) if isinstance(head, Calibrates) else 1.0
        parts = [logits for _, logits in task.pool.map(head.logits, accepted.rows[left], agent.device)]
        probabilities[left] = torch.softmax(factor * torch.cat(parts).double(), dim=1).cpu().numpy()
    return probabilities


def named_by_others(accepted: Accepted, n_old: int) -> BoolArray:
    """Labels that can be judged: of an old class, or of one that another label names as well.

    >>> nothing = np.zeros(4, np.int64)
    >>> named_by_others(Accepted(nothing, np.array([0, 2, 2, 3]), nothing), n_old=2).tolist()
    [True, True, True, False]
    """
    counts = np.bincount(accepted.classes, minlength=n_old)
    return (accepted.classes < n_old) | (counts[accepted.classes] > 1)


def _taught(task: Adaptation, accepted: Accepted, n_classes: int) -> Head:
    """The agent's head after some of what was accepted, as `finish` would teach it."""
    agent: Any = task.agent
    head: Head = agent.head
    rng = generator(agent.seed, agent.version + 1, 0, "long-term head")
    for part in in_lessons(accepted, head, agent.width, len(agent.names)):
        head = head.learn(long_term_lesson(agent, task.pool, part, n_classes), rng)
    return head

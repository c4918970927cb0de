"""PseudoER: experience replay that also believes its most certain novel predictions (paper, section 3.1)."""

from cual.learners import Hesitation
from cual.methods.base import add
from cual.methods.er import ER_ENTROPY
from cual.pseudo_labels import MostCertain

PSEUDO_ER_ENTROPY = add(
    ER_ENTROPY.but(
        name="pseudo-er-entropy",
        summary="er-entropy; pseudo-labels where the entropy is lowest",
        believe=MostCertain(),
    )
)
PSEUDO_ER_MARGIN = add(
    PSEUDO_ER_ENTROPY.but(
        name="pseudo-er-margin",
        summary="er-margin; pseudo-labels where the margin is widest",
        learner=Hesitation("margin"),
    )
)

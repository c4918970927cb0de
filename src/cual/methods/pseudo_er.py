"""PseudoER: experience replay that also believes what it predicts with the most certainty (paper, section 3.1).

The paper has it believe "the most confident samples" and does not say whether those taken for old classes are
among them. `pseudo-er-entropy` and `pseudo-er-margin` leave them out, as CUAL does; the two whose names end in
`-all` do not.
"""

from cual.learners import Hesitation
from cual.methods.base import add
from cual.methods.er import ER_ENTROPY
from cual.pseudo_labels import MostCertain, MostCertainOfAll

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
PSEUDO_ER_ENTROPY_ALL = add(
    PSEUDO_ER_ENTROPY.but(
        name="pseudo-er-entropy-all",
        summary="pseudo-er-entropy; believes old classes, too",
        believe=MostCertainOfAll(),
    )
)
PSEUDO_ER_MARGIN_ALL = add(
    PSEUDO_ER_MARGIN.but(
        name="pseudo-er-margin-all",
        summary="pseudo-er-margin; believes old classes, too",
        believe=MostCertainOfAll(),
    )
)

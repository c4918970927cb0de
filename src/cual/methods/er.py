"""Experience replay with active labelling and no pseudo-labels (paper, section 3.1 and appendix 4.2.3).

The score is the entropy or margin of the long-term classifier itself; queries are chosen by it as CUAL's are
by novelty (appendix 4.1.2): above T_inner while no novel class is known, then the ambiguous ones.
"""

from cual.acquisition.chance import Random
from cual.acquisition.classifier import Entropy
from cual.learners import Hesitation, Novelty
from cual.methods.base import Method, add

ER_ENTROPY = add(
    Method(
        name="er-entropy",
        summary="replay; asks where the classifier's entropy is ambiguous",
        learner=Hesitation("entropy"),
        believe=None,
        ends_below_threshold=False,
    )
)
ER_MARGIN = add(
    ER_ENTROPY.but(
        name="er-margin",
        summary="replay; asks where the classifier's margin is ambiguous",
        learner=Hesitation("margin"),
    )
)
ER_ENTROPY_ONESHOT = add(
    ER_ENTROPY.but(name="er-entropy-oneshot", summary="er-entropy with all questions at once", first_share=1.0)
)
ER_ENTROPY_TOP = add(
    ER_ENTROPY.but(
        name="er-entropy-top",
        summary="replay; asks where the entropy is highest (the usual baseline, not in the paper's tables)",
        first=Entropy(),
        then=Entropy(),
    )
)
ER_RANDOM = add(
    ER_ENTROPY.but(
        name="er-random",
        summary="replay; asks at random, all questions at once",
        learner=Novelty(),  # chance reads no score: the cheaper one fills the ledger
        first=Random(),
        then=Random(),
        first_share=1.0,
    )
)

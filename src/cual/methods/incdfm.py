"""incDFM: CUAL's ancestor, a novelty detector that asks nobody (Rios et al. 2022; paper, section 2.2.1).

Its scores, too, are S⁰ and then Sⁱ, with all that is novel in a pool as one class. The published code
(github.com/amandari/incDFM_ECCV22) believes 15 to 25 % of what lies above a percentile of the validation set's
scores, in 7 to 20 iterations; here α, T_inner and the iterations are CUAL's: only the questions differ.
"""

from cual.learners import Novelty
from cual.methods.base import add
from cual.methods.cual import CUAL

INCDFM = add(
    CUAL.but(
        name="incdfm",
        summary="cual without questions: what is novel is one unnamed class",
        learner=Novelty(unnamed=True),
    )
)

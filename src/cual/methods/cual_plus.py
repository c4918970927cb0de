"""cual-plus: prototypes in whitened space, questions that settle most, one labelling, a closed-form head."""

from cual.acquisition.coverage import Coverage
from cual.heads import Ridge
from cual.learners import Prototypes
from cual.methods.base import Method, add
from cual.pseudo_labels import LikelierThanNot

CUAL_PLUS = add(
    Method(
        name="cual-plus",
        summary="asks what nothing explains, labels the whole pool at once, closed-form head",
        learner=Prototypes(),
        first=Coverage(),
        then=Coverage(),
        first_share=0.6,
        believe=LikelierThanNot(),
        believes_last=True,
        ends_below_threshold=False,  # strangeness saturates: outside can be no farther than some deviations
        rounds=4,
        head=Ridge(expand=-1),
    )
)

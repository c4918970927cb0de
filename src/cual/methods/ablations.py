"""CUAL with one thing changed or taken away (the paper's right-hand table).

Of AL-oneshot there are two readings. By its name, questions are asked in one shot: `al-oneshot`, which goes on
believing a share per round. By section 3.1 it is "AL/Pseudo-labeling in one shot": `al-oneshot-both`, which
believes the share α once.
"""

from cual.acquisition.chance import Random
from cual.acquisition.top import Top
from cual.methods.base import add
from cual.methods.cual import CUAL

AL_TOP = add(CUAL.but(name="al-top", summary="cual that asks about the most novel", then=Top()))
AL_RANDOM = add(
    CUAL.but(
        name="al-random",
        summary="cual that asks at random in the whole pool",
        first=Random(),
        then=Random(),
    )
)
AL_ONESHOT = add(CUAL.but(name="al-oneshot", summary="cual with all questions at once", first_share=1.0))
AL_ONESHOT_BOTH = add(
    AL_ONESHOT.but(
        name="al-oneshot-both",
        summary="cual with all questions at once and then all pseudo-labels at once (section 3.1's wording)",
        believes_last=True,
    )
)
ONLY_AL = add(CUAL.but(name="only-al", summary="cual without pseudo-labels", believe=None))
ONLY_AL_RANDOM = add(
    AL_RANDOM.but(
        name="only-al-random",
        summary="random queries, no pseudo-labels (er-random by the paper's appendix 4.3)",
        believe=None,
        first_share=1.0,
        ends_below_threshold=False,
    )
)
ONLY_AL_8X = add(
    ONLY_AL.but(name="only-al-8x", summary="only-al with eight times the budget", budget_factor=8.0)
)

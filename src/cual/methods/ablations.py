"""CUAL with one thing changed or taken away (the paper's right-hand table)."""

from cual.methods.base import add
from cual.methods.cual import CUAL

AL_TOP = add(CUAL.but(name="al-top", summary="cual that asks about the most novel", then="top"))
AL_RANDOM = add(
    CUAL.but(
        name="al-random", summary="cual that asks at random in the whole pool", first="random", then="random"
    )
)
AL_ONESHOT = add(CUAL.but(name="al-oneshot", summary="cual with all questions at once", first_share=1.0))
ONLY_AL = add(CUAL.but(name="only-al", summary="cual without pseudo-labels", pseudo=""))
ONLY_AL_RANDOM = add(
    AL_RANDOM.but(
        name="only-al-random",
        summary="random queries, no pseudo-labels (er-random by the paper's appendix 4.3)",
        pseudo="",
        first_share=1.0,
        ends_below_threshold=False,
    )
)
ONLY_AL_8X = add(
    ONLY_AL.but(name="only-al-8x", summary="only-al with eight times the budget", budget_factor=8.0)
)

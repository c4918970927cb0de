"""cual-plus: prototypes in whitened space, diverse questions, the pool labelled at once, a closed-form head."""

from cual.methods.base import Method, add
from cual.methods.oracle import ORACLE

CUAL_PLUS = add(
    Method(
        name="cual-plus",
        summary="diverse questions, the whole pool labelled at once, closed-form head",
        score="prototypes",
        first="diverse",
        then="diverse-uncertain",
        first_share=0.6,
        pseudo="likelier-than-not",
        believes_last=True,
        ends_below_threshold=False,  # angles saturate: far outside can be no farther than two deviations
        iterations=4,
        head="ridge",
        head_options={"expand": -1},
    )
)
ORACLE_RIDGE = add(
    ORACLE.but(
        name="oracle-ridge",
        summary="every label of every pool, closed-form head",
        head="ridge",
        head_options={"expand": -1},
    )
)

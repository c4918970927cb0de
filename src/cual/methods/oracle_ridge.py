"""Upper bounds with the closed-form head of cual-plus: what is lost to few labels, not to the head."""

from cual.heads import Ridge
from cual.methods.base import add
from cual.methods.oracle import ORACLE

ORACLE_RIDGE = add(
    ORACLE.but(
        name="oracle-ridge",
        summary="every label of every pool, closed-form head",
        head=Ridge(expand=-1),
    )
)
ORACLE_NOVEL = add(
    ORACLE_RIDGE.but(
        name="oracle-novel",
        summary="oracle-ridge that the bench tells of new classes only: every label of what is novel",
    )
)

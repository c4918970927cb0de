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

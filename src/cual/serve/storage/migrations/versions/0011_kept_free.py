"""Nothing: the number is kept free for a change that is made elsewhere, and whose file replaces this one."""

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Leaves the tables as they are."""

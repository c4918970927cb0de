"""Nothing: the number is kept free for a change that is made elsewhere, and whose file replaces this one."""

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Leaves the tables as they are."""

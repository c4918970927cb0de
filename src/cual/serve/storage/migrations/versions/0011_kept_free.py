"""Nothing: the number is kept for a change that is made elsewhere at the same time; its file replaces this."""

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    pass

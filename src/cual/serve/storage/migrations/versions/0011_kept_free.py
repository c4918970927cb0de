"""Nothing yet: the number belongs to a change that is being made beside this one, and takes its place."""

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    pass

"""Nothing yet: the number belongs to a change that is being made beside this one, and takes its place."""

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    pass

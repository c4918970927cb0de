"""How good a version is, by labels of people only, with its interval, and how good the one before was."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for name in ("accuracy_low", "accuracy_high", "accuracy_before"):
        op.add_column("versions", sa.Column(name, sa.Double(), nullable=True))

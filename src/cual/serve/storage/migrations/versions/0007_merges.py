"""Which classes are probably one is kept with the adaptation."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("adaptations", sa.Column("merges", sa.Text()))

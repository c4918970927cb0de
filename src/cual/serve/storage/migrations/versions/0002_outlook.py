"""Whether another question is worth it is kept with the adaptation. Release 0.1.0 has this schema."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("adaptations", sa.Column("outlook", sa.Text()))

"""Jobs count how often they ended whoever did them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("crashes", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("mark", sa.Text()))

"""The share of known samples that a team lets an agent take for unlike anything known."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("agents", sa.Column("false_alarms", sa.Double()))

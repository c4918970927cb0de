"""What was changed in a version that no adaptation made: a class renamed, merged or removed."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("versions", sa.Column("change", sa.Text()))

"""What happens to an adaptation is kept as events; `rules.earlier` makes them of answers and reviews."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("adaptation", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("person", sa.Integer()),
        sa.Column("question", sa.Integer()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["adaptation"], ["adaptations.id"]),
        sa.ForeignKeyConstraint(["person"], ["people.id"]),
        sa.ForeignKeyConstraint(["question"], ["questions.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_question", "events", ["question"])
    op.create_index("events_by_adaptation", "events", ["adaptation", "id"])

"""What predictions say over time, what was made of it, and whom it is told to."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "watch_counts",
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("start", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Integer(), nullable=False),
        sa.Column("seen", sa.Integer(), nullable=False),
        sa.Column("unlike", sa.Integer(), nullable=False),
        sa.Column("unsure", sa.Integer(), nullable=False),
        sa.Column("known", sa.Integer(), nullable=False),
        sa.Column("score_sum", sa.Double(), nullable=False),
        sa.Column("score_squares", sa.Double(), nullable=False),
        sa.Column("mix", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("agent", "version", "start", "seconds"),
    )
    op.create_table(
        "watch_states",
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("course", sa.Text(), nullable=False),
        sa.Column("unlike_groups", sa.Text()),
        sa.Column("proposal", sa.Text()),
        sa.Column("novelty_since", sa.Double()),
        sa.Column("drift_since", sa.Double()),
        sa.Column("starts_for", sa.Integer()),
        sa.Column("most_questions", sa.Integer(), nullable=False, server_default="50"),
        sa.Column("least_gain", sa.Double(), nullable=False, server_default="5"),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.ForeignKeyConstraint(["starts_for"], ["people.id"]),
        sa.PrimaryKeyConstraint("agent"),
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_webhooks_agent", "webhooks", ["agent"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("webhook", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(40), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.Double()),
        sa.Column("delivered_at", sa.Double()),
        sa.Column("error", sa.Text()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deliveries_webhook", "deliveries", ["webhook"])
    op.create_index("ix_deliveries_next_at", "deliveries", ["next_at"])

"""What is sent to agents and waits to become a pool: policies, inboxes, samples, counts and answers."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "inbox_policies",
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("originals", sa.Boolean(), nullable=False),
        sa.Column("known_share", sa.Double(), nullable=False),
        sa.Column("near", sa.Double()),
        sa.Column("most_samples", sa.Integer(), nullable=False),
        sa.Column("most_megabytes", sa.Integer(), nullable=False),
        sa.Column("most_days", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("agent"),
    )
    op.create_table(
        "inboxes",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("pool", sa.Integer()),
        sa.Column("senders", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.ForeignKeyConstraint(["pool"], ["pools.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_inboxes_agent", "inboxes", ["agent"])
    op.create_index("ix_inboxes_pool", "inboxes", ["pool"])
    op.create_table(
        "inbox_batches",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("inbox", sa.Integer(), nullable=False),
        sa.Column("file", sa.String(32), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["inbox"], ["inboxes.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("file"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_inbox_batches_inbox", "inbox_batches", ["inbox"])
    op.create_table(
        "inbox_samples",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("inbox", sa.Integer(), nullable=False),
        sa.Column("batch", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("original", sa.String(10)),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.String(30), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("score", sa.Double()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(200)),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("arrived_at", sa.Double(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["inbox"], ["inboxes.id"]),
        sa.ForeignKeyConstraint(["batch"], ["inbox_batches.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("inbox", "digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_inbox_samples_batch", "inbox_samples", ["batch"])
    op.create_index("inbox_samples_by_verdict", "inbox_samples", ["inbox", "verdict", "arrived_at"])
    op.create_table(
        "inbox_arrivals",
        sa.Column("inbox", sa.Integer(), nullable=False),
        sa.Column("hour", sa.Double(), nullable=False),
        sa.Column("verdict", sa.String(30), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("kept", sa.Integer(), nullable=False),
        sa.Column("again", sa.Integer(), nullable=False),
        sa.Column("passed_over", sa.Integer(), nullable=False),
        sa.Column("dropped", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["inbox"], ["inboxes.id"]),
        sa.PrimaryKeyConstraint("inbox", "hour", "verdict", "label"),
    )
    op.create_table(
        "inbox_sends",
        sa.Column("agent", sa.Integer(), nullable=False),
        sa.Column("person", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("body", sa.String(64), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["agent"], ["agents.id"]),
        sa.PrimaryKeyConstraint("agent", "person", "key"),
    )
    op.create_index("ix_inbox_sends_created_at", "inbox_sends", ["created_at"])

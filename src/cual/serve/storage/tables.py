"""The tables of a workspace's database. What the rows mean is other modules' business; no connections here.

A change here needs a revision in `migrations`; a test compares the two.
"""

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, Dialect, Double, ForeignKey, Integer, String, Text
from sqlalchemy.types import TypeDecorator


class Moment(TypeDecorator[datetime]):
    """A point in time, aware and in UTC; seconds since 1970 inside, which both databases keep alike."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> float | None:
        return None if value is None else value.timestamp()

    def process_result_value(self, value: float | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value, UTC)


class Json(TypeDecorator[Any]):
    """A plain JSON value as text: a label stays the str or int that it is, and equal ones compare equal."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, sort_keys=True)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


def now() -> datetime:
    return datetime.now(UTC)


metadata = sa.MetaData()


def _key() -> Column[int]:
    return Column("id", Integer, primary_key=True, autoincrement=True)


def _made() -> Column[datetime]:
    return Column("created_at", Moment, nullable=False, default=now)


# -- people ----------------------------------------------------------------------------------------------------

people = sa.Table(
    "people",
    metadata,
    _key(),
    Column("name", String(100), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("active", Boolean, nullable=False, default=True),
    _made(),
    sqlite_autoincrement=True,
)
tokens = sa.Table(
    "tokens",
    metadata,
    _key(),
    Column("person", ForeignKey("people.id"), nullable=False, index=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("kind", String(20), nullable=False),
    Column("note", String(100), nullable=False, default=""),
    _made(),
    Column("expires_at", Moment, nullable=False),
    Column("used_at", Moment),
    Column("revoked_at", Moment),
    sqlite_autoincrement=True,
)
sessions = sa.Table(
    "sessions",
    metadata,
    _key(),
    Column("person", ForeignKey("people.id"), nullable=False, index=True),
    Column("hash", String(64), nullable=False, unique=True),
    _made(),
    Column("seen_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("revoked_at", Moment),
    sqlite_autoincrement=True,
)

# -- what is learned -------------------------------------------------------------------------------------------

agents = sa.Table(
    "agents",
    metadata,
    _key(),
    Column("name", String(100), nullable=False),
    Column("current", Integer, nullable=False),
    Column("method", String(100), nullable=False),
    Column("encoder", Text),
    Column("width", Integer, nullable=False),
    Column("state", String(20), nullable=False, default="ready"),
    Column("error", Text),
    Column("source", Json),  # none: it came as a file
    Column("skipped", Integer, nullable=False, default=0),
    Column("false_alarms", Double),  # none: the method's own threshold
    Column("new_versions", String(20), nullable=False, server_default="live"),  # what they begin as
    Column("shadow_share", Double, nullable=False, server_default="1"),
    _made(),
    sqlite_autoincrement=True,
)
versions = sa.Table(
    "versions",
    metadata,
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("parent", Integer),
    Column("adaptation", Integer),
    Column("classes", Json, nullable=False),
    Column("new_classes", Json, nullable=False),
    Column("labels_used", Integer, nullable=False),
    Column("pseudo_labels", Integer, nullable=False),
    Column("held_out_accuracy", Double),
    Column("held_out", Integer, nullable=False),
    Column("accuracy_low", Double),
    Column("accuracy_high", Double),
    Column("accuracy_before", Double),
    Column("suggestions_right", Double),
    Column("change", Json),  # none: it came as a file, or an adaptation made it
    Column("stage", String(20), nullable=False, server_default="retired"),  # while not live
    Column("safety", Text),  # what was not learned, since it would have done worse (`cual.loop.safety`)
    _made(),
)
shadows = sa.Table(  # what a candidate would have said where the live version answered, added up
    "shadows",
    metadata,
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("live", Integer, primary_key=True, autoincrement=False),
    Column("compared", Integer, nullable=False),
    Column("agreed", Integer, nullable=False),
    Column("judged", Integer, nullable=False),
    Column("live_unlike", Integer, nullable=False),
    Column("unlike", Integer, nullable=False),
    Column("dropped", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("pairs", Json, nullable=False),  # [label of the live version, label of the candidate, samples]
    Column("updated_at", Moment, nullable=False, default=now),
    _made(),
)
shadow_examples = sa.Table(
    "shadow_examples",
    metadata,
    _key(),
    Column("agent", ForeignKey("agents.id"), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("live", Integer, nullable=False),
    Column("live_label", Json, nullable=False),
    Column("label", Json, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("picture", Text),  # none, or a small WebP in base64
    Column("text", Text),
    _made(),
    sqlite_autoincrement=True,
)
repairs = sa.Table(  # that a worker does; what is done at once is a version alone
    "repairs",
    metadata,
    _key(),
    Column("agent", ForeignKey("agents.id"), nullable=False, index=True),
    Column("kind", String(20), nullable=False),
    Column("person", ForeignKey("people.id")),  # none: the operator
    Column("state", String(20), nullable=False),
    Column("error", Text),
    Column("wanted", Json, nullable=False),  # what it needs to be done; once it is, only the reason
    Column("proposal", Json),  # of a split: what people see of it
    Column("answers", Json),  # of a split: what people said
    Column("result_version", Integer),
    Column("skipped", Integer, nullable=False, default=0),
    _made(),
    sqlite_autoincrement=True,
)
pools = sa.Table(
    "pools",
    metadata,
    _key(),
    Column("name", String(100), nullable=False),
    Column("agent", ForeignKey("agents.id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("size", Integer, nullable=False),
    Column("state", String(20), nullable=False),
    Column("error", Text),
    Column("source", Json, nullable=False),
    Column("skipped", Integer, nullable=False, default=0),
    Column("guidelines", Text),  # none: nobody has written any
    Column("shown", Json),  # columns for people to read: their names, and what became of others
    Column("sums", String(64)),  # SHA-256 of the list of checksums in its folder; none: there is no list
    _made(),
    sqlite_autoincrement=True,
)
class_notes = sa.Table(
    "class_notes",
    metadata,
    _key(),
    Column("agent", ForeignKey("agents.id"), nullable=False),
    Column("label", Json, nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("colour", String(7)),  # none: nobody has chosen one
    Column("examples", Json, nullable=False),  # [pool, row], as somebody chose them
    sa.UniqueConstraint("agent", "label"),
    sqlite_autoincrement=True,
)
class_keys = sa.Table(
    "class_keys",
    metadata,
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("key", String(1), primary_key=True),
    Column("label", Json, nullable=False),
)
keyless_classes = sa.Table(  # somebody took the key of this class away, and has given it none since
    "keyless_classes",
    metadata,
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("label", Json, primary_key=True),
)
adaptations = sa.Table(
    "adaptations",
    metadata,
    _key(),
    Column("agent", ForeignKey("agents.id"), nullable=False, index=True),
    Column("base_version", Integer, nullable=False),
    Column("pool", ForeignKey("pools.id"), nullable=False),
    Column("person", ForeignKey("people.id"), nullable=False),
    Column("budget", Integer, nullable=False),
    Column("overlap", Integer, nullable=False, default=1, server_default="1"),
    Column("own_disputes", Boolean, nullable=False, default=False, server_default=sa.false()),
    Column("gold_share", Double, nullable=False, default=0.0, server_default="0"),
    Column("state", String(20), nullable=False),
    Column("round", Integer, nullable=False, default=-1),
    Column("stopped", Boolean, nullable=False, default=False),
    Column("ended", Text),
    Column("outlook", Text),
    Column("merges", Json),  # none before the end of the questions
    Column("error", Text),
    Column("result_version", Integer),
    Column("folder", String(50)),  # which of its folders holds what the learner knew at the last commit
    Column("told", Integer, nullable=False, default=0),  # of release 0.1.0: the last answer used,
    Column("reviewed", Integer, nullable=False, default=0),  # and the last review (`cual.serve.rules.earlier`)
    Column("revision", Integer, nullable=False, default=0),  # grows with everything that people do
    _made(),
    sqlite_autoincrement=True,
)
questions = sa.Table(
    "questions",
    metadata,
    _key(),
    Column("adaptation", ForeignKey("adaptations.id"), nullable=False),
    Column("query", String(50), nullable=False),
    Column("round", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("sample", Json, nullable=False),
    Column("row", Integer, nullable=False),
    Column("score", Double, nullable=False),
    Column("threshold", Double, nullable=False),
    Column("zone", String(20), nullable=False),
    Column("suggestion", Json),
    # An index of what the events say, written with them: `cual.loop.state` decides.
    Column("answered", Boolean, nullable=False, default=False),
    Column("label", Json),
    Column("disagreement", Boolean, nullable=False, default=False),
    Column("missing", Integer, nullable=False, default=1, server_default="1"),  # people still to be asked
    Column("cost", Integer, nullable=False, default=0, server_default="0"),
    _made(),
    sa.UniqueConstraint("adaptation", "row"),
    sa.Index("questions_by_round", "adaptation", "round", "position"),
    sqlite_autoincrement=True,
)
events = sa.Table(
    "events",
    metadata,
    _key(),
    Column("adaptation", ForeignKey("adaptations.id"), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("at", Moment, nullable=False),
    Column("person", ForeignKey("people.id")),
    Column("question", ForeignKey("questions.id"), index=True),
    Column("body", Json, nullable=False),
    sa.Index("events_by_adaptation", "adaptation", "id"),
    sqlite_autoincrement=True,
)
# The next two are of release 0.1.0: `rules.earlier` makes events of them; nothing writes to them any more.
answers = sa.Table(
    "answers",
    metadata,
    _key(),
    Column("question", ForeignKey("questions.id"), nullable=False, index=True),
    Column("adaptation", ForeignKey("adaptations.id"), nullable=False),
    Column("person", ForeignKey("people.id"), nullable=False),
    Column("label", Json),  # none: "cannot tell"
    Column("settles", Boolean, nullable=False, default=False),
    Column("undone_at", Moment),
    _made(),
    sa.Index("answers_by_person", "adaptation", "person"),
    sqlite_autoincrement=True,
)
loans = sa.Table(
    "loans",
    metadata,
    Column("question", ForeignKey("questions.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    Column("until", Moment, nullable=False),
)
gold = sa.Table(
    "gold",
    metadata,
    _key(),
    Column("pool", ForeignKey("pools.id"), nullable=False),
    Column("row", Integer, nullable=False),
    Column("sample", Json, nullable=False),
    Column("label", Json, nullable=False),
    Column("person", ForeignKey("people.id")),  # who says so; none: the operator
    _made(),
    sa.UniqueConstraint("pool", "row"),
    sqlite_autoincrement=True,
)
gold_questions = sa.Table(
    "gold_questions",
    metadata,
    _key(),
    Column("gold", ForeignKey("gold.id"), nullable=False),
    Column("adaptation", ForeignKey("adaptations.id"), nullable=False),
    Column("person", ForeignKey("people.id"), nullable=False),
    Column("label", Json),  # none: not answered yet, or "cannot tell"
    Column("answered_at", Moment),
    _made(),
    sa.UniqueConstraint("gold", "adaptation", "person"),
    sqlite_autoincrement=True,
)
passes = sa.Table(
    "passes",
    metadata,
    Column("question", ForeignKey("questions.id"), primary_key=True),
    Column("person", ForeignKey("people.id"), primary_key=True),
    _made(),
)
reviews = sa.Table(
    "reviews",
    metadata,
    _key(),
    Column("adaptation", ForeignKey("adaptations.id"), nullable=False, index=True),
    Column("person", ForeignKey("people.id"), nullable=False),
    Column("row", Integer, nullable=False),
    Column("verdict", String(20), nullable=False),
    _made(),
    sqlite_autoincrement=True,
)
jobs = sa.Table(
    "jobs",
    metadata,
    _key(),
    Column("kind", String(20), nullable=False),
    Column("adaptation", ForeignKey("adaptations.id"), index=True),
    Column("pool", ForeignKey("pools.id"), index=True),
    Column("agent", ForeignKey("agents.id"), index=True),
    Column("repair", ForeignKey("repairs.id"), index=True),
    Column("state", String(20), nullable=False, index=True),
    Column("not_before", Moment, nullable=False, default=now),
    Column("attempt", Integer, nullable=False, default=0),  # who claims it counts it up: the fencing token
    Column("failures", Integer, nullable=False, default=0),
    Column("crashes", Integer, nullable=False, default=0),  # since it last got further than ever before
    Column("mark", Json),  # how far that was
    Column("worker", Text),
    Column("heartbeat", Moment),
    Column("stage", Text),
    Column("done", Integer, nullable=False, default=0),
    Column("total", Integer, nullable=False, default=0),
    Column("error", Text),
    Column("finished_at", Moment),
    _made(),
    sqlite_autoincrement=True,
)
# -- what is sent to agents (`cual.serve.rules.inbox`) ---------------------------------------------------------

inbox_policies = sa.Table(
    "inbox_policies",
    metadata,
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("originals", Boolean, nullable=False),
    Column("known_share", Double, nullable=False),
    Column("near", Double),  # none: only exact duplicates are kept once
    Column("most_samples", Integer, nullable=False),
    Column("most_megabytes", Integer, nullable=False),
    Column("most_days", Integer, nullable=False),
)
inboxes = sa.Table(
    "inboxes",
    metadata,
    _key(),
    Column("agent", ForeignKey("agents.id"), nullable=False, index=True),
    Column("pool", ForeignKey("pools.id"), index=True),  # none: it is open, or its pool was deleted
    Column("senders", Json, nullable=False),  # who has sent to it
    Column("closed_at", Moment),
    _made(),
    sqlite_autoincrement=True,
)
inbox_batches = sa.Table(  # files: what was kept of one request
    "inbox_batches",
    metadata,
    _key(),
    Column("inbox", ForeignKey("inboxes.id"), nullable=False, index=True),
    Column("file", String(32), nullable=False, unique=True),
    _made(),
    sqlite_autoincrement=True,
)
inbox_samples = sa.Table(
    "inbox_samples",
    metadata,
    _key(),
    Column("inbox", ForeignKey("inboxes.id"), nullable=False),
    Column("batch", ForeignKey("inbox_batches.id"), nullable=False, index=True),
    Column("row", Integer, nullable=False),  # of the batch's file
    Column("digest", String(64), nullable=False),
    Column("original", String(10)),  # what kind the file holds of it; none: only features
    Column("size", Integer, nullable=False),
    Column("verdict", String(30), nullable=False),
    Column("label", Json, nullable=False),
    Column("score", Double),
    Column("version", Integer, nullable=False),
    Column("name", String(200)),
    Column("times", Integer, nullable=False),  # how often it arrived
    Column("arrived_at", Moment, nullable=False),
    Column("last_at", Moment, nullable=False),
    sa.UniqueConstraint("inbox", "digest"),
    sa.Index("inbox_samples_by_verdict", "inbox", "verdict", "arrived_at"),
    sqlite_autoincrement=True,
)
inbox_arrivals = sa.Table(  # counts of all that came, kept or not
    "inbox_arrivals",
    metadata,
    Column("inbox", ForeignKey("inboxes.id"), primary_key=True),
    Column("hour", Moment, primary_key=True),
    Column("verdict", String(30), primary_key=True),
    Column("label", Json, primary_key=True),
    Column("kept", Integer, nullable=False, default=0),
    Column("again", Integer, nullable=False, default=0),
    Column("passed_over", Integer, nullable=False, default=0),
    Column("dropped", Integer, nullable=False, default=0),
)
inbox_sends = sa.Table(  # requests that were answered, by their keys
    "inbox_sends",
    metadata,
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("person", Integer, primary_key=True, autoincrement=False),
    Column("key", String(64), primary_key=True),  # its hash
    Column("body", String(64), nullable=False),
    Column("answer", Text, nullable=False),
    Column("created_at", Moment, nullable=False, default=now, index=True),
)
audit = sa.Table(
    "audit",
    metadata,
    _key(),
    Column("at", Moment, nullable=False, default=now, index=True),
    Column("person", ForeignKey("people.id"), index=True),  # none: the operator, at the command line
    Column("action", String(50), nullable=False),
    Column("kind", String(20), nullable=False),  # of thing
    Column("thing", Integer),
    Column("details", Json, nullable=False),
    sqlite_autoincrement=True,
)
# -- watching --------------------------------------------------------------------------------------------------

watch_counts = sa.Table(  # what a version's predictions said within a minute or, later on, an hour
    "watch_counts",
    metadata,
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("start", Moment, primary_key=True),
    Column("seconds", Integer, primary_key=True, autoincrement=False),
    Column("seen", Integer, nullable=False),
    Column("unlike", Integer, nullable=False),
    Column("unsure", Integer, nullable=False),
    Column("known", Integer, nullable=False),
    Column("score_sum", Double, nullable=False),
    Column("score_squares", Double, nullable=False),
    Column("mix", Json, nullable=False),  # samples by the number of the class that they were taken for
)
watch_states = sa.Table(
    "watch_states",
    metadata,
    Column("agent", ForeignKey("agents.id"), primary_key=True),
    Column("version", Integer, nullable=False),  # whose course it is
    Column("course", Json, nullable=False),
    Column("unlike_groups", Json),  # none: nobody has looked for groups yet
    Column("proposal", Json),
    Column("novelty_since", Moment),
    Column("drift_since", Moment),
    Column(
        "starts_for", ForeignKey("people.id")
    ),  # who lets adaptations begin by themselves; none: nobody does
    Column("most_questions", Integer, nullable=False, default=50, server_default="50"),
    Column("least_gain", Double, nullable=False, default=5.0, server_default="5"),
)
webhooks = sa.Table(
    "webhooks",
    metadata,
    _key(),
    Column("agent", ForeignKey("agents.id"), nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),  # as it is: bodies are signed with it
    Column("events", Json, nullable=False),
    Column("active", Boolean, nullable=False, default=True),
    _made(),
    sqlite_autoincrement=True,
)
deliveries = sa.Table(
    "deliveries",
    metadata,
    _key(),
    Column("webhook", ForeignKey("webhooks.id"), nullable=False, index=True),
    Column("event", String(40), nullable=False),
    Column("body", Text, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("next_at", Moment, index=True),  # none: delivered, or given up
    Column("delivered_at", Moment),
    Column("error", Text),  # of the last attempt
    _made(),
    sqlite_autoincrement=True,
)
retention = sa.Table(  # the last row holds; none: everything is kept
    "retention",
    metadata,
    _key(),
    Column("pools_days", Integer),
    Column("versions", Integer),
    Column("person", ForeignKey("people.id")),  # who said so; none: the operator
    _made(),
    sqlite_autoincrement=True,
)
workspace = sa.Table(  # one row: whose database this is (`belonging`)
    "workspace",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("folder", Text, nullable=False),  # where it was when it was opened last
)
schema = sa.Table("cual_schema", metadata, Column("version", Integer, nullable=False))

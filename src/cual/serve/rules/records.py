"""What the workspace tells of its contents: plain frozen records of JSON values. No database, no files here."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from cual.data.plain import Value, Why
from cual.types import Label, Row


class Role(StrEnum):
    """What a person or a program may do; each may do what the ones before it may, but for `sends`."""

    sender = "sender"
    """A program: has samples judged, and sends them. Sees nothing else, and cannot sign in."""
    reader = "reader"
    """Sees everything."""
    annotator = "annotator"
    """Also answers and reviews."""
    admin = "admin"
    """Also makes agents, pools, adaptations and people, rolls back and backs up."""

    def may(self, needed: "Role") -> bool:
        """Whether this role includes another.

        >>> Role.admin.may(Role.annotator), Role.reader.may(Role.annotator)
        (True, False)
        """
        order = list(Role)
        return order.index(self) >= order.index(needed)

    @property
    def sends(self) -> bool:
        """Whether samples are taken from this role. What is sent becomes a pool: readers must not make one.

        >>> [role.value for role in Role if role.sends]
        ['sender', 'admin']
        """
        return self in (Role.sender, Role.admin)


@dataclass(frozen=True)
class Person:
    id: int
    name: str
    role: Role


OPERATOR = Person(0, "the operator", Role.admin)
"""Whoever has the workspace's folder and uses the command line, or the library, instead of signing in."""

ThingKind = Literal["agent", "pool", "adaptation", "question", "job", "person", "token", "session", "workspace"]


@dataclass(frozen=True)
class AuditRecord:
    """That somebody did something."""

    id: int
    at: datetime
    person: str
    action: str
    """The command: "start", "roll back", …"""
    kind: ThingKind
    """What kind of thing it was done to."""
    thing: int | None
    """The id of that thing."""
    details: dict[str, Any]


@dataclass(frozen=True)
class JobProgress:
    """How far a job is; `total` is 0 where nobody knows."""

    stage: str
    done: int
    total: int


AgentState = Literal["preparing", "ready", "failed", "removed"]
NewVersions = Literal["live", "candidate"]
"""What versions begin as that adaptations make."""
VersionStage = Literal["candidate", "live", "retired", "discarded"]
"""One is live, and predicts. A candidate waits to be promoted; of one that was discarded the file is gone."""


@dataclass(frozen=True)
class AgentRecord:
    id: int
    name: str
    version: int
    """The current one: what predicts, and what the next adaptation starts from. 0 while there is none yet."""
    classes: list[Label]
    method: str
    encoder: str | None
    width: int
    """0 while it is not known yet."""
    created_at: datetime
    state: AgentState = "ready"
    """"removed": its files are gone, what people answered for it is still there."""
    error: str | None = None
    progress: JobProgress | None = None
    skipped: int = 0
    """Labelled items that could not be read; `Workspace.skipped_of_agent` lists them."""
    false_alarms: float | None = None
    """The share of known samples that may be called unlike anything known, as it was set; None for the method's
    own threshold (`Agent.threshold`; 5 % for cual-plus)."""
    new_versions: NewVersions = "live"
    """What versions begin as that adaptations make: live at once, or candidates that somebody promotes."""
    shadow_share: float = 1.0
    """The share of samples that a candidate predicts, too, when the live version has answered."""
    candidate: int | None = None
    """The latest candidate, which predicts in the shadow of the live version."""


@dataclass(frozen=True)
class DependentsRecord:
    """What an agent or a pool is needed for."""

    going: list[int]
    """Adaptations that are under way: while there are any, it cannot be deleted."""
    over: list[int]
    """Adaptations that are finished or dropped: what was answered in them stays."""
    answers: int
    """Questions answered in all of these adaptations."""
    preparing: list[int]
    """Pools that are being prepared for the agent: they have to be ready, or deleted, first."""
    versions: int
    """Versions of the agent; none of a pool."""


@dataclass(frozen=True)
class VersionRecord:
    """One version of an agent.

    `number` counts the versions of this agent in this workspace, in the order in which they were made, so that
    two adaptations of one base make two versions. `Agent.version` inside the file counts the adaptations that
    led to it, and may be lower.
    """

    agent: int
    number: int
    parent: int | None
    created_at: datetime
    adaptation: int | None
    classes: list[Label]
    new_classes: list[Label]
    labels_used: int
    pseudo_labels: int
    held_out_accuracy: float | None
    """Accuracy by labels of people only (`cual.loop.evidence`); of versions made by 0.1.0, which have no
    interval, on a validation set that held pseudo-labels too."""
    held_out: int
    """How many labels that rests on."""
    accuracy_low: float | None
    accuracy_high: float | None
    """Between these it lies with 95 % confidence."""
    accuracy_before: float | None
    """The accuracy of the version before on the same samples."""
    suggestions_right: float | None
    """Share of this adaptation's answers that said what was suggested; None where nothing was suggested."""
    change: Row | None
    """What was changed where no adaptation made it, as `Agent.history` says it."""
    current: bool
    """Whether it is live."""
    stage: VersionStage = "retired"
    safety: str | None = None
    """What was not learned, since the version would have done worse than the one before; for people."""


PoolKind = Literal["pictures", "text", "features"]
PoolState = Literal["preparing", "ready", "failed", "removed"]
"""Of one that is "removed" the files are gone; what people answered about it is still there."""


@dataclass(frozen=True)
class ColumnNote:
    """What became of a column of a pool's table that is not shown as it was."""

    column: str
    why: Why
    text: str
    """For people."""


@dataclass(frozen=True)
class PoolRecord:
    id: int
    name: str
    kind: PoolKind
    size: int
    """0 while it is not known yet."""
    state: PoolState
    error: str | None
    progress: JobProgress | None
    created_at: datetime
    agent: int
    """Whose encoder made the features."""
    skipped: int
    """Items that could not be read; `Workspace.skipped` lists them."""
    guidelines: str = ""
    """What people should know who label it: plain text."""
    columns: list[str] = field(default_factory=list[str])
    """What its table says of each sample beside features or text, for people to read; `Workspace.columns`."""
    column_notes: list[ColumnNote] = field(default_factory=list[ColumnNote])
    """Columns that were left out, or whose values were cut, and why."""


@dataclass(frozen=True)
class ExampleRecord:
    """A sample that shows what a class is."""

    pool: int
    row: int
    chosen: bool
    """Whether somebody chose it; else people gave it this label."""


@dataclass(frozen=True)
class ClassRecord:
    """A class, as it is told to people who label."""

    label: Label
    description: str
    colour: str
    """As #rrggbb: the one that was chosen, or one that is always the same for this name."""
    examples: list[ExampleRecord]
    """Those that were chosen first, then answers, the latest first."""


@dataclass(frozen=True)
class MergeRecord:
    """Two names that are probably one class (`cual.loop.merges`)."""

    a: Label
    """The one that is new, or has fewer answers."""
    b: Label
    probability: float
    answers_a: int
    """Answers that name it."""
    answers_b: int
    text: str
    """For people: one sentence."""


AdaptationState = Literal["thinking", "asking", "review", "finished", "failed", "dropped"]


@dataclass(frozen=True)
class AdaptationRecord:
    id: int
    agent: int
    base_version: int
    pool: int
    budget: int
    """Labels in all; what was given as a share is counted out."""
    spent: int
    """Labels that answers were charged for; "cannot tell" is free."""
    open: int
    """Questions that wait for an answer."""
    state: AdaptationState
    round: int
    """Number of the round, from 0; -1 before the first."""
    asked_in_round: int
    answered_in_round: int
    ended: str | None
    """Why the loop is over."""
    outlook: str | None
    """Whether another question is worth it, for people, as of the last step; None before the first."""
    progress: JobProgress | None
    new_classes: list[Label]
    """Classes that answers named and the base version does not know, in the order of the questions."""
    result_version: int | None
    error: str | None
    created_at: datetime
    suggested_classes: list[Label]
    """What to offer as an answer: the base version's classes, then `new_classes`."""
    merges: list[MergeRecord] = field(default_factory=list[MergeRecord])
    """Names that are probably one class, the most probable first, as of the end of the questions. If so,
    answer again with one name, until it is finished; a pair goes once answers name only one of the two."""
    stopped: bool = False
    """Whether somebody wanted no more questions."""
    result_stage: VersionStage | None = None
    """What the version is by now that came of it."""
    doing: Literal["", "advance", "finish", "pause"] = ""
    """What the learner is about while it is thinking; "pause" is the moment in which answers can be undone."""
    status: str = ""
    """For people, one sentence: what is spent, what is left, why the questions have ended."""
    next: str = ""
    """For people, one sentence: what happens next."""
    overlap: int = 1
    """How many people each question is put to; every opinion is charged."""
    own_disputes: bool = False
    """Whether people may settle disagreements that they are a party to."""
    gold_share: float = 0.0
    """Share of the questions lent to a person whose answer is known, to see how well people do; not charged."""


@dataclass(frozen=True)
class AnswerRecord:
    id: int
    person: str
    label: Label | None
    """None where the person could not tell."""
    unsure: bool
    at: datetime
    undone: bool
    settles: bool = False
    """Whether it was given to settle a disagreement."""


@dataclass(frozen=True)
class QuestionRecord:
    id: int
    adaptation: int
    query: str
    round: int
    sample: Label
    row: int
    """Row of the pool: what `Workspace.picture` and `Workspace.text` take."""
    score: float
    zone: str
    suggestion: Label | None
    lent_to: str | None
    lent_until: datetime | None
    answers: list[AnswerRecord] = field(default_factory=list[AnswerRecord])
    effective: Label | None = None
    """The answer that counts; None where there is none, or where it is "cannot tell" (`unsure`)."""
    unsure: bool = False
    threshold: float = 0.0
    """T_inner of the round."""
    asked_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    disagreement: bool = False
    """Whether two people's latest answers differ and nobody has settled it."""
    missing: int = 1
    """How many people more are to be asked; 0 once it is answered."""
    weight: float | None = None
    """How sure `effective` is, 0 … 1, where it is the consensus of several people."""
    columns: dict[str, Value] = field(default_factory=dict[str, Value])
    """What the pool's table says of the sample, where that was asked for (`Workspace.with_columns`)."""

    @property
    def answered(self) -> bool:
        return not self.missing


@dataclass(frozen=True)
class NamingRecord:
    """What came of classes that somebody gave samples which something else was believed of."""

    charged: int
    """Samples whose class is an answer now, and charged."""
    noted: int
    """Those for which the budget had no room: the belief is rejected, the class noted but not learned."""
    confirmed: int
    """Those of which that was believed anyway."""


@dataclass(frozen=True)
class UndoRecord:
    """What it takes to take back somebody's last answer."""

    question: int
    label: Label | None
    """What was answered; None for "cannot tell"."""
    used: bool
    """Whether the learner has used it, so that a round must be opened again."""
    round: int
    """Number of the round that is open afterwards."""
    withdrawn: int
    """Questions asked since that nobody has answered: they are taken off everybody's desk."""
    kept: int
    """Questions asked since that are answered: the answers stay."""
    forgotten: int
    """Pseudo-labels that the learner forgets, and works out again."""
    text: str
    """For people: one or two sentences."""


RepairKind = Literal["teach", "forget", "split", "merge", "remove"]
RepairState = Literal["preparing", "asking", "done", "failed", "dropped"]
""""asking": a split waits for names and answers."""


@dataclass(frozen=True)
class SplitSample:
    """A sample of a class that is split."""

    sample: int
    """Its number, by which it is answered."""
    group: int
    pool: int | None
    row: int | None
    """Where it lies; None where only the agent's memory has it."""


@dataclass(frozen=True)
class SplitGroup:
    """Samples of a class that are alike."""

    size: int
    examples: list[SplitSample]


@dataclass(frozen=True)
class SplitRecord:
    """How a class may be parted, for people to say what the parts are."""

    label: Label
    size: int
    groups: list[SplitGroup]
    questions: list[SplitSample]
    """The doubtful ones, the most doubtful first."""
    missing: int
    """Samples that the class was learned from, of which no features are kept here."""


@dataclass(frozen=True)
class RepairRecord:
    """A repair of an agent that a worker does."""

    id: int
    agent: int
    kind: RepairKind
    state: RepairState
    error: str | None
    progress: JobProgress | None
    by: str
    why: str
    version: int | None
    """The version that it made."""
    change: Row | None
    """What that version says was changed, and how: exactly, or by training again."""
    classes: list[Label]
    """That are merged (the first stays), removed or split, until it is done."""
    skipped: int
    """Items that could not be read."""
    split: SplitRecord | None
    created_at: datetime


JobKind = Literal["fit", "prepare", "repair", "advance", "finish"]
JobState = Literal["waiting", "running", "done", "failed"]


@dataclass(frozen=True)
class JobRecord:
    id: int
    kind: JobKind
    state: JobState
    adaptation: int | None
    pool: int | None
    agent: int | None
    repair: int | None
    attempt: int
    """How often it was begun."""
    failures: int
    """How often it ended in an error; being killed is none."""
    crashes: int
    """How often the process that did it died, or the whole worker, since it last got further than before."""
    error: str | None
    progress: JobProgress | None
    created_at: datetime
    finished_at: datetime | None

"""The strip that is always visible: labels spent, this round's questions, what happens next, what is left."""

from cual.serve.rules import standing
from cual.serve.rules.records import AdaptationRecord, JobProgress
from cual.serve.rules.sentences import said
from cual.serve.web.page.elements import El
from cual.serve.web.page.frame import Frame
from cual.serve.web.page.texts import told, tr, trn

MOST = 3
"""Pairs of names that the strip shows; all are in the report."""
STAGES = (
    said("adapting"),
    said("columns"),
    said("copying"),
    said("earlier versions"),
    said("encoding"),
    said("learning"),
    said("learning the first classes"),
    said("looking for samples"),
    said("map"),
    said("pictures"),
    said("scoring"),
    said("training again"),
    said("unpacking"),
)
"""What jobs call what they do, so that translations know it."""


class Status:
    """Shows an `AdaptationRecord`; `show` it again whenever it may have changed."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._last: tuple[object, ...] = ()
        self._merges_shown: list[str] = []
        frame.strip.set(hidden=None).classes("status")
        with frame.strip, El("div", classes="status-in"):
            with El("div"):
                self._budget = El("div")
                self._meter = Meter(tr("Labels spent"))
            with El("div"):
                self._round = El("div")
                self._round_meter = Meter(tr("Answered in this round"))
            with El("div", classes="next"):
                self._next = El("div", classes="wrap")
                self._outlook = El("div", classes="outlook soft wrap")
                self._merges = El("ul", classes="outlook wrap", aria_label=tr("Probably one class"))
                self._work = Meter(tr("The learner's progress"))
            self.buttons = El("div", classes="line")

    def show(self, record: AdaptationRecord) -> None:
        self._budget.say(told(standing.status(record)))
        self._meter.show(record.spent, record.budget)
        self._round.say(round_text(record))
        self._round_meter.show(record.answered_in_round, record.asked_in_round)
        self._round_meter.set_visibility(record.asked_in_round > 0)
        self.buttons.set_visibility(record.state in ("asking", "thinking") and record.ended is None)
        thinking = record.state == "thinking"
        following = told(standing.following(record))
        self._next.say(" ".join(part for part in (following, stage_text(record.progress)) if part))
        self._outlook.say(record.outlook or "")
        self._outlook.set_visibility(record.outlook is not None)
        self._show_merges([merge.text for merge in record.merges])
        self._work.set_visibility(thinking)
        if thinking:
            self._work.follow(record.progress)
        if (record.state, record.round) != self._last:  # not with every answer: that is announced by itself
            self._last = (record.state, record.round)
            self._frame.announce(following)

    def _show_merges(self, sentences: list[str]) -> None:
        """A line for each pair of names that are probably one class."""
        self._merges.set_visibility(bool(sentences))
        if sentences == self._merges_shown:
            return
        self._merges_shown = sentences
        self._merges.clear()
        more = len(sentences) - MOST
        with self._merges:
            for sentence in sentences[:MOST]:
                El("li", sentence)
            if more > 0:
                more_pairs = trn(
                    "{n} more pair of names: see the report.", "{n} more pairs of names: see the report.", more
                )
                El("li", more_pairs)


class Meter(El):
    """A thin bar with a name, for eyes and for screen readers."""

    def __init__(self, name: str) -> None:
        super().__init__("div", classes="meter", role="progressbar", aria_label=name)
        with self:
            self._fill = El("div")

    def show(self, done: float, total: float) -> None:
        share = 0.0 if total <= 0 else min(1.0, done / total)
        self.set(aria_valuenow=round(done), aria_valuemin=0, aria_valuemax=max(1, round(total)))
        self.classes(remove="unknown")
        style = {"width": f"{share:.1%}"}
        if self._fill.style != style:
            self._fill.style(f"width: {share:.1%}")

    def follow(self, progress: JobProgress | None) -> None:
        """A job's progress, or only that there is one."""
        if progress is not None and progress.total > 0:
            self.show(progress.done, progress.total)
        else:
            self.classes("unknown").set(aria_valuenow=None)


def round_text(record: AdaptationRecord) -> str:
    """How far the round is.

    One round asks several questions; before the first there is nothing to count.
    """
    if record.round < 0:
        return tr("No questions yet")
    if not record.asked_in_round:
        return tr("Round {number}", number=record.round + 1)
    return tr(
        "Round {number}: {answered} of {asked} answered",
        number=record.round + 1,
        answered=record.answered_in_round,
        asked=record.asked_in_round,
    )


def stage_text(progress: JobProgress | None) -> str:
    if progress is None:
        return ""
    stage = tr(progress.stage)
    if progress.total <= 1:
        return f"({stage})"
    return tr("({stage} {done} of {total})", stage=stage, done=progress.done, total=progress.total)

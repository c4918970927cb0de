"""How an adaptation stands, in sentences that agree with each other: every door says these."""

from cual.serve.rules.records import AdaptationRecord
from cual.serve.rules.sentences import Sentence, said, said_n


def status(record: AdaptationRecord) -> Sentence:
    """What is spent, what is left, and why the questions have ended."""
    left = record.budget - record.spent
    numbers = {"spent": record.spent, "budget": record.budget}
    if record.ended is None:
        return said("{spent} of {budget} labels spent, {left} left.", **numbers, left=left)
    if left == 0:
        return said("All {budget} labels are spent.", budget=record.budget)
    if record.stopped:
        return said(
            "{spent} of {budget} labels spent: the questions were stopped, {left} stay unspent.",
            **numbers,
            left=left,
        )
    if record.ended == "nothing lies above T_inner":
        return said(
            "{spent} of {budget} labels spent: nothing is left that looks novel, {left} stay unspent.",
            **numbers,
            left=left,
        )
    if record.ended == "all iterations are used":
        return said(
            "{spent} of {budget} labels spent: all rounds are over, {left} stay unspent.", **numbers, left=left
        )
    return said(
        "{spent} of {budget} labels spent: nothing is left that is worth asking, {left} stay unspent.",
        **numbers,
        left=left,
    )


def following(record: AdaptationRecord) -> Sentence:
    """What happens next, and what is needed for it."""
    return getattr(_Following, record.state)(record)


class _Following:
    """By the state of an adaptation."""

    @staticmethod
    def thinking(record: AdaptationRecord) -> Sentence:
        if record.doing == "finish":
            return said("The learner makes the next version; nothing is needed from you.")
        if record.doing == "pause":
            return said(
                "All is answered: in a moment the learner goes on. Undo now if the last answer was wrong."
            )
        return said("The learner works through the pool; the next questions come by themselves.")

    @staticmethod
    def asking(record: AdaptationRecord) -> Sentence:
        return said_n(
            "{n} question of round {round} waits for an answer; then the learner goes on by itself.",
            "{n} questions of round {round} wait for an answer; then the learner goes on by itself.",
            record.open,
            round=record.round + 1,
        )

    @staticmethod
    def review(record: AdaptationRecord) -> Sentence:
        return said("No more questions. Review what was labelled without asking, then finish.")

    @staticmethod
    def finished(record: AdaptationRecord) -> Sentence:
        if record.result_stage == "candidate":
            return said(
                "Version {number} is made and is a candidate: it waits to be promoted.",
                number=record.result_version,
            )
        return said("Version {number} is made and predicts from now on.", number=record.result_version)

    @staticmethod
    def failed(record: AdaptationRecord) -> Sentence:
        return said("It stopped with an error. Nothing that was answered is lost: try again.")

    @staticmethod
    def dropped(record: AdaptationRecord) -> Sentence:
        return said("It was given up; no version comes of it.")

"""The candidate of an agent, on its page: where it differs from the live version, before it is promoted."""

from collections.abc import Sequence

from cual.errors import NotFound
from cual.serve.rules.records import AgentRecord, Role, VersionRecord
from cual.serve.rules.shadows import ExampleRecord, PairRecord, ShadowRecord
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.rollout import Refresh, accuracy_in_words, reason_for
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import percent
from cual.types import Label

MOST_PAIRS = 20
"""Pairs of labels that are listed."""
MOST_LABELS = 12
"""Labels up to which there is a table of all against all."""


class CandidateCard:
    """What is known of the latest candidate; what it is compared by is drawn again as it grows."""

    def __init__(self, viewer: Viewer, agent: int, refresh: Refresh) -> None:
        self._viewer, self._agent, self._refresh = viewer, agent, refresh
        self._box: El | None = None
        self._counts: El | None = None
        self._drawn: tuple[int, int] | None = None
        self._shown: ShadowRecord | None = None

    def place(self) -> None:
        """Have its place here, from now on."""
        self._box, self._counts, self._drawn, self._shown = El("div"), None, None, None

    async def draw(self, agent: AgentRecord) -> None:
        """Draw again what has changed."""
        try:
            shadow = None if agent.candidate is None else await asked(self._viewer.workspace.shadow, agent.id)
        except NotFound:  # somebody has promoted or discarded it meanwhile
            shadow = None
        if self._box is None:
            return
        now = None if shadow is None else (shadow.candidate.number, shadow.live.number)
        if now != self._drawn or (shadow is not None and self._counts is None):
            self._drawn, self._counts = now, None
            self._box.clear()
            if shadow is not None:
                with self._box:
                    self._counts = self._card(shadow)
        if shadow is not None and self._counts is not None and shadow != self._shown:
            self._shown = shadow
            self._counts.clear()
            with self._counts:
                _differences(agent.id, shadow)

    def _card(self, shadow: ShadowRecord) -> El:
        candidate, live = shadow.candidate, shadow.live
        numbers = {"number": candidate.number, "live": live.number}
        with El("section", classes="card stack tight", aria_label=tr("Candidate"), data_candidate=""):
            El("h2", tr("Candidate: version {number}", number=candidate.number))
            El(
                "p",
                tr(
                    "It predicts in the shadow of version {live}, which is live; nobody is told what it says.",
                    **numbers,
                ),
                "wrap",
            )
            if candidate.parent is not None and candidate.parent != live.number:
                El("p", tr("It was made of version {parent}.", parent=candidate.parent), "wrap")
            for version in (live, candidate):
                _quality(version)
            counts = El("div", classes="stack tight")
            if self._viewer.may(Role.admin):
                with El("div", classes="line"):
                    button(tr("Promote version {number}", **numbers), "main").on(
                        "click", lambda: self._promote(candidate.number, live.number)
                    )
                    button(tr("Discard version {number}", **numbers)).on(
                        "click", lambda: self._discard(candidate.number)
                    )
        return counts

    async def _promote(self, version: int, live: int) -> None:
        question = tr(
            "Let version {number} predict from now on? Version {live} is retired; you can go back to it.",
            number=version,
            live=live,
        )
        why = await reason_for(question, tr("Promote"))
        person = None if why is None else await tried(self._viewer.now, Role.admin)
        if why is not None and person is not None:
            await tried(self._viewer.workspace.promote, self._agent, version, live, why, person)
        await self._refresh()

    async def _discard(self, version: int) -> None:
        question = tr("Give up version {number}? Its file goes for good; answers stay.", number=version)
        why = await reason_for(question, tr("Discard"))
        person = None if why is None else await tried(self._viewer.now, Role.admin)
        if why is not None and person is not None:
            await tried(self._viewer.workspace.discard, self._agent, version, why, person)
        await self._refresh()


def _quality(version: VersionRecord) -> None:
    """How good a version is by what people said, and what was not learned lest it does worse."""
    accuracy = accuracy_in_words(version) or tr("not known")
    El("p", tr("Accuracy of version {number}: {accuracy}", number=version.number, accuracy=accuracy), "wrap")
    if version.safety is not None:
        El("p", version.safety, "wrap soft")


def _differences(agent: int, shadow: ShadowRecord) -> None:
    if not shadow.compared and not shadow.judged:
        El(
            "p",
            tr("Nothing is compared yet: that begins with the next prediction of the live version."),
            "wrap",
        )
        return
    if shadow.compared:
        El(
            "p",
            trn(
                "Of {n} sample, {share} got the same label from both.",
                "Of {n} samples, {share} got the same label from both.",
                shadow.compared,
                share=percent(shadow.agreement),
            ),
            "wrap",
            data_agreement="",
        )
    if shadow.judged:
        El(
            "p",
            tr(
                "Unlike anything known: {before} of samples for version {live}, {after} for version {number}.",
                before=percent(shadow.live_unlike),
                after=percent(shadow.unlike),
                live=shadow.live.number,
                number=shadow.candidate.number,
            ),
            "wrap",
        )
    if shadow.dropped or shadow.failed:
        El(
            "p",
            tr(
                "{dropped} samples were not compared, since too many waited; of {failed} it could say nothing.",
                dropped=shadow.dropped,
                failed=shadow.failed,
            ),
            "wrap soft",
        )
    rows = sorted({pair.live_label for pair in shadow.pairs}, key=str)
    columns = sorted({pair.label for pair in shadow.pairs}, key=str)
    if 0 < max(len(rows), len(columns)) <= MOST_LABELS:
        _matrix(shadow, rows, columns)
    different = [pair for pair in shadow.pairs if pair.live_label != pair.label]
    if different:
        _pairs(agent, shadow, different)


def _matrix(shadow: ShadowRecord, rows: Sequence[Label], columns: Sequence[Label]) -> None:
    """All labels that one gave against all that the other gave."""
    samples = {(pair.live_label, pair.label): pair.samples for pair in shadow.pairs}
    name = tr("Labels of version {live} in rows, of the candidate in columns", live=shadow.live.number)
    box = El("div", classes="scroll", tabindex="0", role="region", aria_label=name)
    with box, El("table", classes="table"):
        El("caption", name, "soft")
        with El("thead"), El("tr"):
            El("td")
            for label in columns:
                El("th", str(label), "number", scope="col")
        with El("tbody"):
            for live_label in rows:
                with El("tr"):
                    El("th", str(live_label), scope="row")
                    for label in columns:
                        n = samples.get((live_label, label), 0)
                        with El("td", classes="number"):
                            El("span" if live_label == label else "b", str(n) if n else "")


def _pairs(agent: int, shadow: ShadowRecord, different: Sequence[PairRecord]) -> None:
    """Where they differ, most frequent first, with what it was about."""
    name = tr("Where they differ")
    box = El("div", classes="scroll", tabindex="0", role="region", aria_label=name)
    with box, El("table", classes="table", data_pairs=""):
        with El("thead"), El("tr"):
            El("th", tr("Version {number}", number=shadow.live.number), scope="col")
            El("th", tr("Version {number}", number=shadow.candidate.number), scope="col")
            El("th", tr("Samples"), "number", scope="col")
            El("th", tr("For example"), scope="col")
        with El("tbody"):
            for pair in different[:MOST_PAIRS]:
                with El("tr"):
                    El("td", str(pair.live_label), "wrap")
                    El("td", str(pair.label), "wrap")
                    El("td", str(pair.samples), "number")
                    with El("td"), El("div", classes="line"):
                        for example in shadow.examples:
                            if (example.live_label, example.label) == (pair.live_label, pair.label):
                                _example(agent, example)
    if len(different) > MOST_PAIRS:
        El("p", tr("and {n} more pairs, in the API", n=len(different) - MOST_PAIRS), "soft")


def _example(agent: int, example: ExampleRecord) -> None:
    if example.picture:
        El(
            "img",
            src=f"/api/agents/{agent}/shadow/pictures/{example.id}",
            alt=tr("{label} in place of {other}", label=example.label, other=example.live_label),
            width="96",
            height="96",
            loading="lazy",
        )
    elif example.text is not None:
        El("q", example.text, "wrap")
    else:
        El("code", example.digest[:12], title=tr("SHA-256 of its features: {digest}", digest=example.digest))

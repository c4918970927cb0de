"""Forms of the page of repairs: teach labelled data, take back samples, take back answers."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from cual.serve.rules.records import Role
from cual.serve.rules.repairing import LONGEST_REASON
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.forms import COLUMNS, columns_of_table, field, file_form, server_path
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, complain, tried

Refresh = Callable[[], Awaitable[None]]


def teach_card(viewer: Viewer, agent: int) -> None:
    """Labelled data goes in as a file, or lies on the service's machine."""
    with El("section", classes="card", aria_label=tr("Teach labelled data")):
        El("h2", tr("Teach labelled data"))
        El(
            "p",
            tr(
                "Samples whose labels you have already, of known classes or new ones: they are learned without "
                "questions. A tenth is held out, to measure. A sample that was learned under another label "
                "gets this one."
            ),
            "soft wrap",
        )
        with file_form(viewer, f"/api/agents/{agent}/teach", tr("Received; it is taught now.")):
            field(
                tr("A zip with one folder of pictures per class, a table with text and label (.csv), or .npz"),
                type_="file",
                name="files",
                accept=".zip,.csv,.tsv,.jsonl,.npz,.parquet",
            ).on("change", js_handler=COLUMNS)
            server_path(viewer)
            field(tr("Why (for the history)"), name="why", maxlength=str(LONGEST_REASON))
            names = {
                "text": tr("Column of the text"),
                "label": tr("Column of the label"),
                "id": tr("Column of the ids"),
            }
            columns_of_table("taught", names)
            El("button", tr("Teach"), "button main", type_="submit")


async def forget_samples_card(viewer: Viewer, agent: int, refresh: Refresh) -> None:
    """Samples of a pool, by their ids."""
    pools = [pool for pool in await asked(viewer.workspace.pools) if pool.agent == agent]
    choices = {pool.id: pool.name for pool in pools if pool.state == "ready"}
    with El("section", classes="card stack tight", aria_label=tr("Take back samples")):
        El("h2", tr("Take back samples"))
        El("p", _how(), "soft wrap")
        if not choices:
            El("p", tr("It takes a pool of this agent that is ready."), "soft")
            return
        pool = ui.select(choices, label=tr("Pool"), value=next(iter(choices))).props("outlined dense")
        ids = ui.textarea(tr("Ids of samples, one on each line")).props("outlined autogrow")
        why = _why()
        earlier = _earlier()
        originals = ui.checkbox(tr("Also remove their pictures, texts and columns from the pool"))

        async def send() -> None:
            samples = [line.strip() for line in str(ids.value or "").splitlines() if line.strip()]
            if not samples:
                complain(tr("Name the samples first."))
                return
            sure = [trn("Take back {n} sample?", "Take back {n} samples?", len(samples)), _undo(earlier.value)]
            sure += [tr("What is removed from the pool does not come back.")] if originals.value else []
            if not await confirmed(" ".join(sure), tr("Take back")):
                return
            person = await tried(viewer.now, Role.admin)
            if person is None:
                return
            options = {"earlier": bool(earlier.value), "originals": bool(originals.value)}
            made = await tried(
                viewer.workspace.forget,
                agent,
                person,
                int(pool.value or 0),
                samples,
                why=str(why.value or ""),
                **options,
            )
            if made is not None:
                ids.value = ""
            await refresh()

        with El("div", classes="line"):
            button(tr("Take back samples"), "main").on("click", send)


async def forget_answers_card(viewer: Viewer, agent: int, refresh: Refresh) -> None:
    """What one person answered, or everybody in an adaptation."""
    tasks = [
        task
        for task in await asked(viewer.workspace.adaptations)
        if task.agent == agent and task.state == "finished"
    ]
    people = await asked(viewer.accounts.people)
    with El("section", classes="card stack tight", aria_label=tr("Take back answers")):
        El("h2", tr("Take back answers"))
        El(
            "p",
            tr(
                "What one person answered, in all adaptations that led to the current version or in one of "
                "them. Samples that others have answered, too, are learned as these say. The answers "
                "themselves stay in the reports and exports."
            ),
            "soft wrap",
        )
        if not tasks:
            El("p", tr("No adaptation has made a version of this agent yet."), "soft")
            return
        whose = {0: tr("everybody"), **{person.id: person.name for person in people}}
        where = {0: tr("all adaptations"), **{task.id: tr("Adaptation {id}", id=task.id) for task in tasks}}
        person_box = ui.select(whose, label=tr("Answers of"), value=0).props("outlined dense")
        task_box = ui.select(where, label=tr("In"), value=0).props("outlined dense")
        why = _why()
        earlier = _earlier()

        async def send() -> None:
            of, task = int(person_box.value or 0) or None, int(task_box.value or 0) or None
            if of is None and task is None:
                complain(tr("Choose a person, or an adaptation."))
                return
            sure = tr(
                "Take back the answers of {name} in {where}?", name=whose[of or 0], where=where[task or 0]
            )
            if not await confirmed(f"{sure} {_undo(earlier.value)}", tr("Take back")):
                return
            person = await tried(viewer.now, Role.admin)
            if person is None:
                return
            await tried(
                viewer.workspace.forget,
                agent,
                person,
                adaptation=task,
                of=of,
                earlier=bool(earlier.value),
                why=str(why.value or ""),
            )
            await refresh()

        with El("div", classes="line"):
            button(tr("Take back answers"), "main").on("click", send)


def _how() -> str:
    return tr(
        "The next version is the one that had never seen them. Heads in closed form subtract them exactly; "
        "others are trained again from what is kept, and the history says so."
    )


def _why() -> ui.input:
    return ui.input(tr("Why (for the history)")).props(f"outlined dense maxlength={LONGEST_REASON}")


def _earlier() -> ui.checkbox:
    return ui.checkbox(tr("Also in all earlier versions: their files are written anew, or removed"))


def _undo(earlier: bool | None) -> str:
    """Whether there is a way back."""
    if earlier:
        return tr("All versions are changed: there is no way back.")
    return tr("A new version is made, and you can go back: earlier ones still have it.")

"""Questions asked in a real Label Studio: a scripted annotator answers through its API. Needs Label Studio."""

import base64
import io
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from cual import SKIP, Adaptation, Agent, Client
from cual.bridges.label_studio import Bridge, FolderSource, LabelStudio, Receiver, ServiceSource
from cual.bridges.label_studio.labelling import CANNOT_TELL, confidence
from cual.bridges.label_studio.showing import thumbnail
from cual.cli import app
from cual.data.files import write
from cual.data.table import Table
from cual.errors import BadOption, FolderInUse, NotAllowed, NotFound
from cual.serve.rules.workspace import Workspace
from label_studio_server import Annotator, Server, server
from running import CUAL, environment, running, until
from serving import make_service
from worlds import World

pytestmark = pytest.mark.label_studio
OWL, VIXEN = "owl", "Füchsin mit Schal"


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("label-studio")) as held:
        yield held


@pytest.fixture
def client(studio: Server) -> Iterator[LabelStudio]:
    with LabelStudio(studio.url, studio.personal) as held:
        yield held


@pytest.fixture
def api(studio: Server) -> Iterator[Any]:
    with studio.api() as held:
        yield held


def picture(sample: Any) -> str:
    return thumbnail(Image.new("RGB", (900, 600), (int(str(sample)[4:7]) * 3, 80, 80)))


def told(task: Any) -> list[tuple[Any, Any]]:
    """Everything that was ever told, in order."""
    return [(row["sample"], row.get("answer")) for row in task.journal if row["event"] == "told"]


def answer_while(going: Callable[[], bool], person: Annotator, world: World) -> None:
    """Annotate rightly whatever comes, as long as something goes on."""
    end = time.monotonic() + 300
    while going():
        assert time.monotonic() < end, "it does not end"
        for t in person.open():
            person.annotate(t, world.truth[t["meta"]["sample"]])


def test_a_whole_adaptation(client: LabelStudio, api: Any, world: World, tmp_path: Path) -> None:
    """Tasks carry predictions and scores, new classes join the label set, the agent is the library's own."""
    task = world.adapt(budget=12)
    source = FolderSource(task, tmp_path / "task", "image", picture)
    bridge = Bridge(source, client, title="whole")
    person = Annotator(api, bridge.project)
    assert person.choices() == ["cat", "dog", CANNOT_TELL]
    suggested, rounds = 0, 0
    while bridge.step() is not None:
        rounds += 1
        new = person.open()
        query = task.ask()
        assert query is not None
        assert [t["meta"]["sample"] for t in new] == list(query.ids)
        for t, score, zone, suggestion in zip(new, query.scores, query.zones, query.suggestions, strict=True):
            (prediction,) = t["predictions"]
            assert prediction["score"] == pytest.approx(confidence(score))
            said = [r["value"]["choices"] for r in prediction["result"]]
            assert said == ([] if suggestion is None else [[suggestion]])
            suggested += suggestion is not None
            assert (t["data"]["score"], t["data"]["zone"]) == (pytest.approx(score), zone)
            head, _, coded = t["data"]["image"].partition(",")
            assert head == "data:image/webp;base64"
            assert max(Image.open(io.BytesIO(base64.b64decode(coded))).size) == 512
            person.annotate(t, world.truth[t["meta"]["sample"]])
    assert rounds > 1
    assert suggested
    assert set(person.choices()) == {"cat", "dog", OWL, VIXEN, CANNOT_TELL}
    assert person.choices()[-1] == CANNOT_TELL
    assert len(person.tasks()) == len(told(task)) == task.labels_used
    task.finish().save(tmp_path / "bridged")
    world.answer_all(world.adapt(budget=12)).finish().save(tmp_path / "same")
    assert (tmp_path / "bridged").read_bytes() == (tmp_path / "same").read_bytes()


def test_corrections_skips_and_deletions(client: LabelStudio, api: Any, world: World, tmp_path: Path) -> None:
    task = world.adapt(budget=20)
    bridge = Bridge(FolderSource(task, tmp_path / "task"), client, title="corrections")
    assert bridge.step() == 8
    person = Annotator(api, bridge.project)
    tasks = person.open()
    samples = [t["meta"]["sample"] for t in tasks]
    assert tasks[0]["data"]["text"] == samples[0]

    first = person.annotate(tasks[0], "wrong")
    person.skip(tasks[1])
    person.annotate(tasks[2], CANNOT_TELL)
    gone = person.annotate(tasks[3], "dog")
    person.delete(gone)  # before anybody looked: as if it had never been
    gone = person.annotate(tasks[4], "dog")
    person.annotate(tasks[5], "x" * 101)
    bridge.step()
    said: dict[Any, Any] = {
        samples[0]: "wrong",
        samples[1]: SKIP,
        samples[2]: SKIP,
        samples[4]: "dog",
    }
    assert task.answers == said
    assert "wrong" in person.choices()

    # nothing changed: nothing is told
    before = told(task)
    bridge.step()
    assert told(task) == before

    # a correction is told as one, a deleted annotation leaves nothing to learn, a usable name is used
    person.correct(first, OWL)
    person.delete(gone)
    person.correct(person.tasks()[5]["annotations"][0]["id"], "short enough")
    bridge.step()
    said |= {samples[0]: OWL, samples[4]: SKIP, samples[5]: "short enough"}
    assert task.answers == said
    assert told(task)[: len(before)] == before
    assert len(told(task)) == len(before) + 3

    # another annotation: what was changed last counts, unless one is marked as the ground truth
    person.annotate(tasks[0], "cat")
    person.annotate(tasks[4], "dog", ground_truth=True)
    person.annotate(tasks[4], "cat")
    person.skip(tasks[5])
    bridge.step()
    said |= {samples[0]: "cat", samples[4]: "dog"}
    assert task.answers == said

    # a task that somebody deletes is asked again
    api.delete(f"/api/tasks/{tasks[7]['id']}/").raise_for_status()
    bridge.step()
    assert [t["meta"]["sample"] for t in person.open()] == [samples[3], samples[6], samples[7]]


def test_a_project_of_ones_own(client: LabelStudio, api: Any, world: World, tmp_path: Path) -> None:
    """An empty project gets a config, a used one is extended and shared, one that does not fit is refused."""
    empty = client.add_project(title="empty")["id"]
    agent = world.agent()
    one = Bridge(FolderSource(world.adapt(agent), tmp_path / "one"), client, empty)
    assert one.step() == 3
    person = Annotator(api, empty)
    person.annotate(person.open()[0], OWL)
    one.step()
    # a second adaptation in the same project, with tasks of its own
    two = Bridge(FolderSource(world.adapt(agent), tmp_path / "two"), client, empty)
    assert two.step() == 3
    assert len(person.tasks()) == 6
    assert person.choices() == ["cat", "dog", OWL, CANNOT_TELL]
    with pytest.raises(BadOption, match=r"must show \$image"):
        Bridge(FolderSource(world.adapt(agent), tmp_path / "three", "image", picture), client, empty)
    foreign = client.add_project(title="foreign", label_config="<View><Text name='t' value='$text'/></View>")
    with pytest.raises(BadOption, match="has no <Choices"):
        Bridge(FolderSource(world.adapt(agent), tmp_path / "four"), client, foreign["id"])
    with pytest.raises(NotFound):
        Bridge(FolderSource(world.adapt(agent), tmp_path / "five"), client, 10**6)
    with pytest.raises(FolderInUse):
        FolderSource(world.adapt(agent), tmp_path / "two")


def test_tokens(studio: Server, client: LabelStudio) -> None:
    with LabelStudio(studio.url, studio.token) as legacy:
        assert legacy.whoami() == client.whoami()
    client._http.auth._access = "expired.or.wrong"  # pyright: ignore
    assert client.whoami()["email"]
    for wrong in ("0" * 40, "a.b.c"):
        with LabelStudio(studio.url, wrong) as refused, pytest.raises(NotAllowed) as error:
            refused.whoami()
        assert wrong not in str(error.value)


def test_by_webhook_alone(client: LabelStudio, api: Any, world: World, tmp_path: Path) -> None:
    """The bridge would look every hour; Label Studio tells it sooner. What an earlier run left is cleared."""
    task, wake = world.adapt(), threading.Event()
    bridge = Bridge(FolderSource(task, tmp_path / "task"), client, title="webhook")
    person = Annotator(api, bridge.project)
    with Receiver(wake) as receiver:
        bridge.add_webhook("http://127.0.0.1:9/left-by-a-killed-run", "old")
        added = bridge.add_webhook(receiver.url, receiver.secret)
        assert [held["id"] for held in client.webhooks(bridge.project)] == [added]
        thread = threading.Thread(target=bridge.run, args=(3600, wake), daemon=True)
        thread.start()
        answer_while(thread.is_alive, person, world)
        bridge.remove_webhook(added)
    assert client.webhooks(bridge.project) == []
    assert task.ended
    assert task.answers == {t["meta"]["sample"]: world.truth[t["meta"]["sample"]] for t in person.tasks()}


def test_killed_and_started_again(
    studio: Server, api: Any, world: World, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The command is killed, people annotate meanwhile, it is started again: nothing is lost or told twice."""
    world.agent().save(tmp_path / "v0.agent")
    write(tmp_path / "new.npz", Table(world.pool, ids=np.array(world.ids)))
    for i in world.ids:
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.new("RGB", (40, 30), (int(i[4:7]), 9, 9)).save(tmp_path / "photos" / i)
    command = [*CUAL, "label-studio", "adapt", "v0.agent", "new.npz", "--show", "photos", "-o", "v1.agent"]
    title = f"killed {secrets.token_hex(4)}"
    command += ["--budget", "12", "--every", "0.5", "--title", title]
    own = {"LABEL_STUDIO_URL": studio.url, "LABEL_STUDIO_API_KEY": studio.personal}

    def begin(*more: str) -> subprocess.Popen[bytes]:
        how: dict[str, Any] = {"cwd": tmp_path, "stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        started = subprocess.Popen([*command, *more], env={**environment(), **own}, **how)
        request.addfinalizer(started.kill)
        return started

    def made() -> int | None:
        found = api.get("/api/projects/", params={"title": title}).json()["results"]
        assert len(found) <= 1
        return found[0]["id"] if found else None

    process = begin()
    until(lambda: made() is not None and bool(Annotator(api, made() or 0).open()))
    person = Annotator(api, made() or 0)
    for _ in range(3):
        until(lambda: bool(person.open()))
        waiting = person.open()
        for i, t in enumerate(waiting):
            if i == len(waiting) // 2:
                process.kill()
                process.wait()
            person.annotate(t, world.truth[t["meta"]["sample"]])
        assert process.returncode == -signal.SIGKILL
        process = begin("--webhook", "0")
    answer_while(lambda: process.poll() is None, person, world)
    assert process.stderr is not None
    assert process.returncode == 0, process.stderr.read().decode()
    assert api.get("/api/webhooks/", params={"project": person.project}).json() == []
    same = world.answer_all(Agent.load(tmp_path / "v0.agent").adapt(world.pool, 12, ids=world.ids))
    same.finish().save(tmp_path / "same.agent")
    assert (tmp_path / "v1.agent").read_bytes() == (tmp_path / "same.agent").read_bytes()
    assert sorted(t["meta"]["sample"] for t in person.tasks()) == sorted(same.answers)
    kept = Adaptation.load(tmp_path / "v1.agent.task")
    assert sorted(told(kept)) == sorted(same.answers.items())
    assert all(t["data"]["image"].startswith("data:image/webp") for t in person.tasks())


def test_an_adaptation_of_a_service(client: LabelStudio, api: Any, world: World, tmp_path: Path) -> None:
    """With thumbnails of the service; the bridge is replaced by another one in the middle."""
    workspace = Workspace.open(tmp_path / "workspace")
    held = make_service(workspace, world)
    workspace.close()
    with running(tmp_path / "workspace") as service:
        admin = Client(service.url, service.token("Amy", "admin"))
        robot = Client(service.url, service.token("label-studio", "annotator"))
        task = admin.start(held.agent, held.pool, 12)
        until(lambda: task.state.state == "asking")
        bridge = Bridge(ServiceSource(robot, task.id), client, title="service")
        opened = bridge.step()
        assert opened
        person = Annotator(api, bridge.project)
        tasks = person.open()
        image = Image.open(io.BytesIO(base64.b64decode(tasks[0]["data"]["image"].partition(",")[2])))
        assert image.size == (4, 4)
        wrong = person.annotate(tasks[0], "dog")
        bridge.step()
        person.correct(wrong, world.truth[tasks[0]["meta"]["sample"]])

        again = Bridge(ServiceSource(robot, task.id), client, title="another")
        assert again.project == bridge.project
        wake = threading.Event()
        with Receiver(wake) as receiver:
            added = again.add_webhook(receiver.url, receiver.secret)
            thread = threading.Thread(target=again.run, args=(3600, wake), daemon=True)
            thread.start()
            answer_while(thread.is_alive, person, world)
            again.remove_webhook(added)
        assert task.state.state == "review"
        ledger = {row["sample"]: row["answer"] for row in task.ledger()}
        assert ledger == {i: world.truth[i] for i in ledger}
        assert sorted(ledger) == sorted(t["meta"]["sample"] for t in person.tasks())
        given = admin.get(f"/api/adaptations/{task.id}/questions")
        first = next(q for q in given if q["sample"] == tasks[0]["meta"]["sample"])
        assert [a["label"] for a in first["answers"]] == ["dog", world.truth[first["sample"]]]
        assert all(len(q["answers"]) == 1 for q in given if q is not first)
        assert set(task.finish().classes) == {"cat", "dog", OWL, VIXEN}


def test_what_the_command_says(studio: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def said(*arguments: str, **own: str) -> str:
        done = CliRunner().invoke(app, ["label-studio", *arguments], env={"COLUMNS": "200", **own})
        assert done.exit_code == 2
        assert done.stderr.count("\n") == 1
        return done.stderr

    adapt = ("adapt", "v0.agent", "new.npz", "-o", "v1.agent", "--budget", "3", "--studio", studio.url)
    assert "LABEL_STUDIO_API_KEY" in said(*adapt, LABEL_STUDIO_API_KEY="")
    assert "refused" in said(*adapt, LABEL_STUDIO_API_KEY="0" * 40)
    nowhere = (*adapt[:-1], "http://127.0.0.1:9")
    assert "no Label Studio answers" in said(*nowhere, LABEL_STUDIO_API_KEY=studio.token)
    assert "v0.agent" in said(*adapt, LABEL_STUDIO_API_KEY=studio.token)
    assert "CUAL_TOKEN" in said("attach", "http://127.0.0.1:9/adaptations/1", CUAL_TOKEN="")
    assert "is not like" in said("attach", "http://127.0.0.1:9", CUAL_TOKEN="x")


def test_label_studio_is_restarted(studio: Server, client: LabelStudio, world: World, tmp_path: Path) -> None:
    """The last test, for it takes the server away for a while."""
    task, lines = world.adapt(), list[str]()
    bridge = Bridge(FolderSource(task, tmp_path / "task"), client, title="restarted", report=lines.append)
    thread = threading.Thread(target=bridge.run, args=(0.2,), daemon=True)
    thread.start()
    until(lambda: any("round 1" in line for line in lines))
    studio.stop()
    until(lambda: any("trying again" in line for line in lines))
    studio.start()
    with studio.api() as api:
        person = Annotator(api, bridge.project)
        answer_while(thread.is_alive, person, world)
        assert task.ended
        assert sorted(t["meta"]["sample"] for t in person.tasks()) == sorted(task.answers)

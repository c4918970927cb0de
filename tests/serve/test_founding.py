"""Agents that the service makes of labelled data: zips, tables, features; what is wrong with them; deletion."""

import io
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from PIL import Image

from cual.encoders import base, encoders
from cual.errors import BadFile, BadOption, Conflict, NotAllowed, NotFound
from cual.serve.jobs import founding
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.records import OPERATOR, AgentRecord
from cual.serve.rules.sources import TableColumns
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from running import until
from serve.test_poison import worker
from serve.test_pools import TinyEncoder
from serving import Service
from visiting import site

TESTS = str(Path(__file__).parents[1])


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders that need no weights, in the place of the usual ones."""
    for kind, usual in (("image", "efficientnet-lite0"), ("text", "all-minilm-l6-v2")):

        def factory(name: str, setup: base.Setup, *, kind: str = kind) -> TinyEncoder:
            return TinyEncoder(kind)

        for name in (usual, f"tiny-{kind}"):
            monkeypatch.setitem(encoders._members, name, factory)
    monkeypatch.setattr(base, "BUILT_IN", base.BUILT_IN | {"tiny-image", "tiny-text"})


def png(colour: Any) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (20, 10), colour).save(held, "PNG")
    return held.getvalue()


def zipped(**files: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return held.getvalue()


def photos(n: int = 5, above: str = "", **more: bytes) -> bytes:
    return zipped(
        **{f"{above}dark/{i}.png": png((10 * i, 0, 5)) for i in range(n)},
        **{f"{above}light/{i}.png": png((250, 200 + 10 * i, 240)) for i in range(n)},
        **more,
    )


def made(workspace: Workspace, name: str, data: bytes, **more: Any) -> AgentRecord:
    workspace.uploads.mkdir(exist_ok=True)
    file = workspace.uploads / name
    file.write_bytes(data)
    record = workspace.make_agent("new", file, OPERATOR, **more)
    assert (record.state, record.classes) == ("preparing", [])
    work_until_idle(workspace)
    return workspace.agent(record.id)


def due(workspace: Workspace) -> None:
    """Let no job wait for its time."""
    with workspace.database.writing() as c:
        c.execute(sa.update(db.jobs).values(not_before=db.now()))


@pytest.mark.parametrize("above", ["", "all of them/"])
def test_a_zip_of_class_folders(workspace: Workspace, above: str) -> None:
    broken = {f"{above}dark/broken.png": b"no", f"{above}.hidden.png": b"", "__MACOSX/dark/x.png": b""}
    agent = made(workspace, "photos.zip", photos(above=above, **broken))
    assert (agent.state, agent.error, agent.skipped) == ("ready", None, 1)
    assert (agent.classes, agent.version, agent.width) == (["dark", "light"], 0, 6)
    assert agent.encoder == TinyEncoder("image").fingerprint
    assert workspace.skipped_of_agent(agent.id)[0]["source"] == "dark/broken.png"
    assert [f.name for f in sorted(workspace.home.agent_folder(agent.id).iterdir())] == [
        "0.agent",
        "SHA256SUMS",
        "skipped.json",
    ]
    assert workspace.load_agent(agent.id).predict(np.zeros((1, 6))).tolist() == ["dark"]


def test_a_table_with_columns_of_its_own(workspace: Workspace) -> None:
    rows = [f"{'aeiou' * i}xyz,vowels" for i in range(1, 5)] + [f"{'b' * i},others" for i in range(1, 5)]
    table = "\n".join(["said,what", *rows]).encode()
    with pytest.raises(BadFile, match=r"no column of text .*; it has said, what"):
        made(workspace, "said.csv", table)
    with pytest.raises(BadFile, match="no column of labels; say which it is of said, what"):
        made(workspace, "said.csv", table, columns=TableColumns(text="said"))
    agent = made(workspace, "said.csv", table, columns=TableColumns(text="said", label="what"))
    assert (agent.state, agent.error, sorted(map(str, agent.classes))) == ("ready", None, ["others", "vowels"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (photos(2), "at least 3 samples .* dark (2), light (2)"),
        (zipped(**{f"{i}.png": png("red") for i in range(5)}), "put those of each class into a folder"),
        (photos(loose_=b"x", **{"loose.png": png("red")}), "1 of 11 images lie in no folder of a class"),
        (zipped(**{"readme.txt": b"hello"}), "the zip holds no pictures"),
        (zipped(**{"../../dark/1.png": png("red")}), "outside of its folder"),
        (b"PK\x03\x04 and no more", "no whole zip"),
    ],
)
def test_what_is_wrong_is_said_and_can_be_deleted(workspace: Workspace, data: bytes, why: str) -> None:
    agent = made(workspace, "photos.zip", data)
    assert agent.state == "failed"
    assert why.split(" .* ")[0] in (agent.error or "")
    assert why.split(" .* ")[-1] in (agent.error or "")
    with pytest.raises(Conflict, match="could not be made"):
        workspace.load_agent(agent.id)
    assert workspace.retry_job(workspace.jobs()[0].id, OPERATOR).agent == agent.id
    workspace.delete_agent(agent.id, OPERATOR)
    with pytest.raises(NotFound):
        workspace.agent(agent.id)
    assert not workspace.home.agent_folder(agent.id).exists()


def test_only_built_in_encoders_and_allowed_folders(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="the service runs the encoders"):
        workspace.make_agent("x", tmp_path / "data", OPERATOR, encoder="python:os:system")
    with pytest.raises(NotAllowed):
        workspace.make_agent("x", tmp_path, OPERATOR)
    assert not workspace.agents()


def test_killed_in_the_middle_it_goes_on(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any) -> bool:
        raise Killed

    with monkeypatch.context() as during:
        during.setattr(founding, "_commit", killed)
        with pytest.raises(Killed):
            made(workspace, "photos.zip", photos())
    monkeypatch.setattr("cual.serve.rules.jobs._abandoned", lambda row: True)
    work_until_idle(workspace)
    (agent,) = workspace.agents()
    assert (agent.state, agent.classes) == ("ready", ["dark", "light"])


@pytest.mark.attacks
def test_a_killed_worker_leaves_it_to_the_next(workspace: Workspace) -> None:
    """A process that is killed while it encodes; what comes of it is what comes of an undisturbed one."""
    whole = made(workspace, "photos.zip", photos())
    (workspace.uploads / "photos.zip").write_bytes(photos())
    agent = workspace.make_agent("killed", workspace.uploads / "photos.zip", OPERATOR).id
    note = workspace.folder / "encoding"
    tiny = f"""\
import sys
sys.path.insert(0, {TESTS!r})
from cual.encoders import encoders
from serve.test_pools import TinyEncoder
encoders._members["efficientnet-lite0"] = lambda name, setup: TinyEncoder("image")
"""
    stuck = f"TinyEncoder.encode = lambda self, batch: (Path({str(note)!r}).touch(), time.sleep(600))"
    with worker(workspace, fit=tiny + stuck) as running:
        until(note.exists)
        running.kill()
        running.wait()
    assert workspace.agent(agent).state == "preparing"
    with worker(workspace, fit=tiny):
        until(lambda: due(workspace) or workspace.agent(agent).state != "preparing")
    assert workspace.agent(agent).state == "ready", workspace.agent(agent).error
    assert workspace.jobs()[0].attempt == 2
    killed, rightly = (workspace.home.agent_file(id, 0).read_bytes() for id in (agent, whole.id))
    assert killed == rightly
    assert sorted(f.name for f in workspace.home.agent_folder(agent).iterdir()) == [
        "0.agent",
        "SHA256SUMS",
        "skipped.json",
    ]


def test_a_backup_holds_what_an_agent_is_made_of(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "data" / "photos.zip").write_bytes(photos())
    there = workspace.make_agent("there", tmp_path / "data" / "photos.zip", OPERATOR).id
    workspace.uploads.mkdir(exist_ok=True)
    (workspace.uploads / "photos.zip").write_bytes(photos())
    sent = workspace.make_agent("sent", workspace.uploads / "photos.zip", OPERATOR).id
    example = workspace.make_example(OPERATOR).id
    file = workspace.backup(tmp_path / "b", OPERATOR)
    (tmp_path / "data" / "photos.zip").unlink()
    other = Workspace.restore(file, tmp_path / "restored")
    assert {a.id: a.state for a in other.agents()} == {
        there: "failed",
        sent: "preparing",
        example: "preparing",
    }
    work_until_idle(other)
    assert (other.agent(sent).state, other.agent(sent).classes) == ("ready", ["dark", "light"])
    assert other.agent(example).state == "ready"
    (pool,) = other.pools()
    assert (pool.state, pool.kind) == ("ready", "pictures")
    assert "add it again" in (other.agent(there).error or "")
    other.close()


def test_answers_outlive_the_agent_and_the_pool(service: Service) -> None:
    w, adaptation = service.workspace, service.start()
    for delete, thing in ((w.delete_agent, service.agent), (w.delete_pool, service.pool)):
        with pytest.raises(Conflict, match="adaptation 1, which is under way"):
            delete(thing, OPERATOR)
    service.answer_round(adaptation)
    w.drop(adaptation, OPERATOR)
    told = w.ledger(adaptation)
    named = service.truth(w.questions(adaptation)[0].sample)
    assert w.classes(service.agent, [named])[0].examples
    dependents = w.dependents_of_pool(service.pool)
    assert (dependents.going, dependents.over, dependents.answers > 0) == ([], [adaptation], True)
    w.delete_pool(service.pool, OPERATOR)
    assert w.classes(service.agent, [named])[0].examples == []
    w.delete_agent(service.agent, OPERATOR)
    assert (w.pool(service.pool).state, w.agent(service.agent).state) == ("removed", "removed")
    assert not w.home.pool_folder(service.pool).exists()
    assert not w.home.agent_folder(service.agent).exists()
    assert w.ledger(adaptation) == told
    assert w.report(adaptation)
    with pytest.raises(Conflict, match="was deleted"):
        w.start(service.agent, service.pool, 5, service.ann)
    with pytest.raises(NotFound):
        w.picture(service.pool, 0)


def test_how_long_answers_take_is_told_by_answers_only(service: Service) -> None:
    w, adaptation = service.workspace, service.start(budget=20)
    assert w.pace() is None
    service.answer_all(adaptation)
    e, moment = db.events.c, db.now()
    with w.database.writing() as c:
        for n, event in enumerate(c.execute(sa.select(e.id).order_by(e.id)).scalars().all()):
            moment += timedelta(hours=1) if n % 7 == 0 else timedelta(seconds=4)
            c.execute(sa.update(db.events).where(e.id == event).values(at=moment))
    assert w.pace() == 4


def test_the_same_over_http(service: Service) -> None:
    with site(service) as here:
        client = here.bearer()
        sent = client.post("/api/agents/from-data", data={"name": "p"}, files={"files": ("p.zip", photos())})
        assert (sent.status_code, sent.json()["state"]) == (201, "preparing"), sent.text
        agent = sent.json()["id"]
        body = {"features": [[0.0] * 6]}
        assert client.post(f"/api/agents/{agent}/predict", json=body).status_code == 409
        assert client.post("/api/adaptations", json={"agent": agent, "pool": 1, "budget": 5}).status_code == 409
        service.work()
        assert client.post(f"/api/agents/{agent}/predict", json=body).json()["labels"] == ["dark"]
        files = {"files": ("n.zip", photos(above="x/"))}
        pool = client.post("/api/pools", data={"name": "n", "agent": str(agent)}, files=files).json()["id"]
        service.work()
        seen = client.get(f"/api/pools/{pool}").json()
        assert (seen["state"], seen["kind"], seen["size"]) == ("ready", "pictures", 10)
        assert client.patch(f"/api/pools/{pool}", json={"name": "m"}).json()["name"] == "m"
        assert client.delete(f"/api/agents/{agent}").status_code == 204
        assert client.post(f"/api/agents/{agent}/predict", json=body).status_code == 409
        for hostile in (zipped(**{"../a.png": png("red")}), zipped(**{"a.exe": b"MZ"})):
            answer = client.post(
                "/api/agents/from-data", data={"name": "p"}, files={"files": ("p.zip", hostile)}
            )
            assert answer.status_code == 422
            assert "/uploads/" not in answer.text

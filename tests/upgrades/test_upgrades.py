"""Files of release 0.1.0 are read, gone on with and finished, and end in what that release ended in.

Bit for bit, where this machine rounds as that one did. How the files were made: `make_fixtures`. What was
changed on purpose since, and is not compared: novelty and its threshold are the method's own, no longer S⁰ for
all; so methods that measure no distances to classes keep no class models; the journal has more kinds of events;
answers are numbered among them.

cual-plus asks and believes otherwise since, and ccic's loss is divided by the number of classes (`CHANGED`).
What they had asked, been told and believed is kept; what they compute from then on is another matter, and only
has to come to an end.
"""

import copy
import json
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

import postgres_server
from cual import SKIP, Adaptation, Agent, Client, Pool
from cual.cli import app
from cual.data.files import read
from cual.data.folder import FeaturesFolder, FeaturesWriter, Made
from cual.errors import LabelsMissing, NotAllowed
from cual.learners import ModelsClasses
from cual.methods import methods
from cual.serve.rules.records import Person, Role
from cual.serve.rules.workspace import Workspace
from running import running, until
from upgrades import release
from upgrades.release import FIRST, Row

pytestmark = pytest.mark.more

AGENTS = sorted({path.stem.rpartition("-v")[0] for path in (FIRST / "agents").iterdir()})
ADAPTATIONS = sorted(path.name for path in (FIRST / "adaptations").iterdir())
ON_A_FOLDER = "cual-plus-on-a-folder"
CHANGED = ("cual-plus", "ccic")
"""Methods that compute something else than they did: of the first a walk tells what is novel, and questions are
planned; the loss of the second is that of its published code."""
Copied = Callable[[str], Path]
Arrays = dict[str, np.ndarray]


def check(found: Any, expected: Any, where: str = "") -> None:
    """All that the release said is said still; a later one may say more, in further fields."""
    if where.endswith("/journal"):
        check_journal(found, expected)
    elif isinstance(expected, dict):
        assert isinstance(found, dict), where
        gone = {"threshold"} if "tensors" in expected and not models_classes(found["method"]) else set[str]()
        gone |= {key for key in expected if key.startswith("model.") and key not in found}
        gone |= {"id"} if "settles" in expected else set[str]()
        if found.get("accuracy_low") is not None:  # measured by labels of people only since
            gone |= {"held_out", "held_out_accuracy"}
        if expected.get("ended") and found.get("status"):  # which says since why the questions have ended
            gone |= {"next"}
        assert not expected.keys() - found.keys() - gone, where
        for key in expected.keys() - gone:
            check(found[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        listed = all(isinstance(row, dict) for row in expected)
        if where.startswith("/pseudo_labels/") and listed:  # the least certain come first since
            found, expected = (sorted(rows, key=lambda row: row["row"]) for rows in (found, expected))
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            check(one, other, f"{where}/{i}")
    else:
        assert (type(found), found) == (type(expected), expected), where


def models_classes(method: str) -> bool:
    return isinstance(methods[method].learner, ModelsClasses)


def check_journal(found: list[Row], expected: list[Row], gone_on: bool = False) -> None:
    """Whatever was asked, told, judged and stopped is there, in its order and with its moment.

    Nothing else is, unless it has gone on since.
    """
    kinds = {"told": "told", "corrected": "told", "skipped": "told"}
    shared = ("asked", "told", "confirmed", "rejected", "stopped")
    mine = [(kinds.get(e["event"], e["event"]), e) for e in found]
    mine = [(kind, e) for kind, e in mine if kind in shared and e.get("samples") != []]
    theirs = [e for e in expected if e.get("samples") != []]
    mine = mine[: len(theirs)] if gone_on else mine
    assert [kind for kind, _ in mine] == [e["event"] for e in theirs]
    for (_, e), before in zip(mine, theirs, strict=True):
        assert {k: e.get(k) for k in before if k not in ("event", "skipped")} == {
            k: v for k, v in before.items() if k not in ("event", "skipped")
        }
        assert bool(before.get("skipped")) == (e["event"] == "skipped" or bool(e.get("skipped")))


def check_tensors(found: Agent, file: Path) -> None:
    """Type, shape and bits of everything that an agent holds."""
    mine, theirs = release.tensors(found), release.file_tensors(file)
    if not models_classes(found.method.name):
        theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("model.")}
    for name, tensor in theirs.items():
        assert (mine[name].dtype, mine[name].shape) == (tensor.dtype, tensor.shape), name
        np.testing.assert_array_equal(mine[name], tensor, err_msg=name)


def check_outputs(agent: Agent, X: np.ndarray, arrays: Arrays, name: str, same_bits: bool = True) -> None:
    for key, found in release.outputs(agent, X).items():
        if key == "novelty" and not models_classes(agent.method.name):
            continue
        theirs = arrays[f"{name}.{key}"]
        assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape), key
        if same_bits or key == "predictions":
            np.testing.assert_array_equal(found, theirs, err_msg=key)
        else:
            np.testing.assert_allclose(found, theirs, rtol=1e-3, atol=1e-5, err_msg=key)


# -- agents ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_says_what_it_said(
    name: str, version: int, expected: Row, arrays: Arrays, same_bits: bool
) -> None:
    file = FIRST / "agents" / f"{name}-v{version}.agent"
    agent, told = Agent.load(file), expected["agents"][name]
    said, theirs = release.said_of_agent(agent), dict(told["versions"][version])
    mine, before = said.pop("threshold"), theirs.pop("threshold")
    if models_classes(agent.method.name):
        np.testing.assert_allclose(mine, before, rtol=0 if same_bits else 1e-5)
    check(said, theirs)
    check_outputs(
        agent, arrays[f"data.{told['made']['data']}.probe"], arrays, f"agents.{name}.{version}", same_bits
    )
    check_tensors(agent, file)


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_fitted_and_adapted_as_it_was(name: str, expected: Row, arrays: Arrays) -> None:
    made = expected["agents"][name]["made"]
    data = {k: arrays[f"data.{made['data']}.{k}"] for k in ("X", "y", "pool0", "ids0", "labels0")}
    options = {**release.options_then(made["method"], made["options"]), "encoder": made["encoder"]}
    if not models_classes(made["method"]):  # such options were ignored; now they are refused
        options = {k: v for k, v in options.items() if not k.startswith("uncertainty")}
    agent = Agent.fit(data["X"], data["y"], method=made["method"], seed=made["seed"], **options)
    check_tensors(agent, FIRST / "agents" / f"{name}-v0.agent")
    loaded = Agent.load(FIRST / "agents" / f"{name}-v0.agent")
    task = loaded.adapt(data["pool0"], made["budget"], ids=data["ids0"])
    truth = dict(zip(data["ids0"].tolist(), data["labels0"].tolist(), strict=True))
    after = release.answer_all(task, truth).finish()
    theirs = {k: v for k, v in expected["agents"][name]["versions"][1].items() if k != "threshold"}
    if made["method"] in CHANGED:
        check_next_agent(release.said_of_agent(after), theirs, task.answers.values())
        return
    check_tensors(after, FIRST / "agents" / f"{name}-v1.agent")
    check(release.said_of_agent(after), theirs)


def check_next_agent(found: Row, expected: Row, answers: Iterable[Any]) -> None:
    """Another agent than the release made, of the same kind: it knows what it knew and what people named."""
    before = [c for c in expected["classes"] if c not in expected["history"][-1]["new_classes"]]
    assert found["classes"][: len(before)] == before
    assert set(found["classes"]) == {*before, *(a for a in answers if a is not SKIP)}
    assert set(expected["classes"]) <= set(found["classes"])  # at least as many as the release found
    check(found["history"][:-1], expected["history"][:-1])
    kept = ("method", "seed", "version", "width", "encoder")
    assert [found[k] for k in kept] == [expected[k] for k in kept]
    same = ("version", "ended", "labels_used", "budget", "unspent", "pool_size")
    assert [found["history"][-1][k] for k in same] == [expected["history"][-1][k] for k in same]


def test_the_command_line_goes_on_with_an_agent_of_the_release(
    expected: Row, arrays: Arrays, tmp_path: Path
) -> None:
    """Started and resumed with today's commands; the file of the agent is the release's."""
    made = expected["agents"]["cual-plus"]["made"]
    pool, ids = arrays[f"data.{made['data']}.pool0"], arrays[f"data.{made['data']}.ids0"]
    np.savez(tmp_path / "pool.npz", X=pool, ids=ids)
    command = ["adapt", FIRST / "agents" / "cual-plus-v0.agent", tmp_path / "pool.npz"]
    command += ["-o", tmp_path / "next.agent", "--budget", 4, "--task", tmp_path / "task"]
    for _ in range(2):
        result = CliRunner().invoke(app, [str(a) for a in command], input="q\n")
        assert result.exit_code == 0, result.output
    assert "going on with" in result.stderr


# -- adaptations -----------------------------------------------------------------------------------------------


def moved(name: str, copied: Copied) -> Path:
    """A copy of a saved adaptation; one on a features folder names that by its path."""
    path = copied(f"adaptations/{name}")
    if name == ON_A_FOLDER:
        file, features = path / "pool.safetensors", copied("features")
        with safe_open(file, framework="np") as held:
            meta = json.loads(held.metadata()["cual"])
        meta["body"]["folder"]["path"] = str(features)
        save_file({}, file, {"cual": json.dumps(meta, sort_keys=True)})
    return path


@pytest.mark.parametrize("name", ADAPTATIONS)
def test_an_adaptation_stands_where_it_was_left(
    name: str, expected: Row, copied: Copied, tmp_path: Path
) -> None:
    told = expected["adaptations"][name]["saved"]
    task = Adaptation.load(moved(name, copied))
    check(release.saved(task), told)
    task.save(tmp_path / "again")
    check(release.saved(Adaptation.load(tmp_path / "again")), told)


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("name", ADAPTATIONS)
def test_an_adaptation_goes_on_to_the_same_end(
    name: str, expected: Row, arrays: Arrays, copied: Copied
) -> None:
    told = expected["adaptations"][name]
    truth = dict(told["truth"])
    path = moved(name, copied)
    task = Adaptation.load(path)
    while query := task.ask():
        with pytest.raises(LabelsMissing):
            task.finish()
        task.tell(query.id, {query.ids[0]: truth[query.ids[0]]})
        task.save(path)  # into the release's own folder, answer by answer
        task = Adaptation.load(path)
        task.tell(query.id, {sample: truth[sample] for sample in query.ids[1:]})
    came, agent = release.finished(task, truth)
    if agent.method.name in CHANGED and told["saved"]["ended"] is None:
        check_gone_on(task, came, told)
        return
    check(came, told["finished"])
    check_outputs(agent, arrays[f"data.{told['data']}.probe"], arrays, f"adaptations.{name}")


def check_gone_on(task: Adaptation, came: Row, told: Row) -> None:
    """What had happened is kept to the letter, and the rest was asked, told and believed in some way."""
    saved, finished = told["saved"], told["finished"]
    check_journal(release.plain(task.journal), saved["journal"], gone_on=True)
    rounds = len(saved["history"])
    check(came["history"][:rounds], finished["history"][:rounds])
    asked = {question["sample"] for e in saved["journal"] if e["event"] == "asked" for question in e["samples"]}
    check(rows_of(came["ledger"], asked), rows_of(finished["ledger"], asked))
    assert {sample for sample, _ in saved["answers"]} <= asked & task.answers.keys()
    for name in ("budget", "labels_used", "ended"):
        assert came[name] == finished[name], name
    check_next_agent(came["agent"], finished["agent"], task.answers.values())
    believed = dict(came["pseudo_labels"])
    assert not believed.keys() & task.answers.keys()
    assert set(believed.values()) <= set(task.answers.values())
    truth = dict(told["truth"])
    if not finished["pseudo_labels"]:
        assert not believed
        return
    mine, theirs = (
        np.mean([label == truth[sample] for sample, label in labels])
        for labels in (came["pseudo_labels"], finished["pseudo_labels"])
    )
    assert mine > theirs - 0.1


def rows_of(ledger: list[Row], samples: set[Any]) -> list[Row]:
    return [row for row in ledger if row["sample"] in samples]


# -- features --------------------------------------------------------------------------------------------------


def test_a_features_folder_holds_what_it_held(expected: Row, arrays: Arrays) -> None:
    told = expected["features"]["folder"]
    held, features = FeaturesFolder.open(FIRST / "features"), read(FIRST / "features")
    held.verify()
    assert held.X[:].dtype == arrays["features"].dtype
    np.testing.assert_array_equal(held.X[:], arrays["features"])
    for name in ("ids", "labels", "sources", "stamps"):
        assert getattr(held, name) == told[name]
    assert (features.encoder, features.sha256()) == (told["encoder"], told["sha256"])
    assert features.labels().tolist() == told["labels"]


def test_a_features_folder_takes_more(expected: Row, arrays: Arrays, copied: Copied) -> None:
    path, told = copied("features"), expected["features"]["folder"]
    with FeaturesWriter(path, 16, made=Made(told["encoder"], {"size": 4})) as writer:
        assert [writer.stamp(sample) for sample in told["ids"]] == told["stamps"]
        writer.append(np.ones((1, 16)), ["new.jpg"], ["cat"])
    held = FeaturesFolder.open(path)
    assert held.ids == [*told["ids"], "new.jpg"]
    np.testing.assert_array_equal(held.X[:-1], arrays["features"])


def test_a_pool_holds_what_it_held(expected: Row, arrays: Arrays, tmp_path: Path) -> None:
    pool = Pool.load(FIRST / "pool.safetensors")
    for held in (pool, _saved(pool, tmp_path / "pool")):
        assert list(held.ids) == expected["features"]["pool"]["ids"]
        np.testing.assert_array_equal(held.take(np.arange(len(held))).numpy(), arrays["pool"])
    assert release.file_tensors(tmp_path / "pool")["X"].dtype == np.float16


def _saved(pool: Pool, path: Path) -> Pool:
    pool.save(path)
    return Pool.load(path)


# -- the service -----------------------------------------------------------------------------------------------


@contextmanager
def opened(folder: Path, database: str | None = None):
    workspace = Workspace.open(folder, database)
    yield workspace
    workspace.close()


def person(told: Row, name: str) -> Person:
    return next(Person(p["id"], name, Role(p["role"])) for p in told["people"] if p["name"] == name)


def truths(told: Row) -> dict[int, dict[Any, Any]]:
    return {int(pool): dict(pairs) for pool, pairs in told["truths"].items()}


def check_opened(workspace: Workspace, told: Row) -> None:
    check(release.opened(workspace), told["opened"])
    assert workspace.text(2, 3) == told["text"]
    assert list(workspace.picture(1, 3).read_bytes()) == told["picture"]


def check_end(workspace: Workspace, told: Row) -> None:
    """Everything is answered and finished, and comes out as it did; of adaptations that go on with cual-plus,
    what had happened before does."""
    release.go_on(workspace, person(told, "ann"), truths(told))
    found, expected = release.ended(workspace), copy.deepcopy(told["end"])
    methods_of = {agent["id"]: agent["method"] for agent in told["opened"]["agents"]}
    for task, opened in told["opened"]["adaptations"].items():
        if methods_of[opened["agent"]] in CHANGED and opened["state"] in ("asking", "thinking"):
            check_task_gone_on(task, found, expected, told["opened"])
    for version, learned in expected["learned"].items():
        check_learned_on(found["learned"][version], learned)
    check(found, expected)


def check_learned_on(found: Row, expected: Row) -> None:
    """Where only known classes were named, 0.1.0 learned nothing of it, and a head that is trained does now."""
    trained = "head.epochs" in expected["tensors"]
    if not trained or not expected["history"] or expected["history"][-1]["new_classes"]:
        return
    weights = [name for name in expected["tensors"] if name.startswith(("head.bias", "head.weight"))]
    assert weights
    for name in weights:
        assert found["tensors"].pop(name) != expected["tensors"].pop(name)


def check_task_gone_on(task: str, found: Row, expected: Row, opened: Row) -> None:
    """Compare what is the same of one adaptation, and take the rest out of both."""
    mine, theirs = found["adaptations"].pop(task), expected["adaptations"].pop(task)
    for name in (
        "agent",
        "base_version",
        "pool",
        "budget",
        "spent",
        "open",
        "state",
        "ended",
        "result_version",
    ):
        assert mine[name] == theirs[name], name
    rounds = len(opened["history"][task])
    check(found["history"].pop(task)[:rounds], expected["history"].pop(task)[:rounds])
    asked = {question["sample"] for question in opened["questions"][task]}
    ledger, before = found["ledgers"].pop(task), expected["ledgers"].pop(task)
    check(rows_of(ledger, asked), rows_of(before, asked))
    answers = [row["answer"] for row in ledger if not row["skipped"]]
    believed = [row["label"] for row in found["pseudo_labels"].pop(task)]
    assert set(believed) <= set(answers)
    expected["pseudo_labels"].pop(task)
    agent, version = str(mine["agent"]), mine["result_version"]
    learned = f"{agent}.{version}"
    check_next_agent(found["learned"].pop(learned), expected["learned"].pop(learned), answers)
    versions, others = found["versions"][agent], expected["versions"][agent]
    for name in ("agent", "number", "parent", "adaptation", "labels_used", "current"):
        assert versions[version][name] == others[version][name], name
    del versions[version], others[version]


@pytest.mark.usefixtures("bits")
def test_a_workspace_is_found_as_it_was_left_and_gone_on_with(folder: Path, expected: Row) -> None:
    told = expected["workspace"]
    with opened(folder) as workspace:
        check_opened(workspace, told)
        check(release.said_of_jobs(workspace), told["jobs"])
        check_end(workspace, told)


@pytest.mark.postgres
@pytest.mark.usefixtures("bits")
def test_a_workspace_on_postgresql_is_gone_on_with(folder: Path, dumped: str, expected: Row) -> None:
    told = expected["workspace"]
    (folder / "cual.sqlite3").unlink()
    with opened(folder, dumped) as workspace:
        check_opened(workspace, told)
        check(release.said_of_jobs(workspace), told["jobs"])
        check_end(workspace, told)
    assert not (folder / "cual.sqlite3").exists()


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_backup_is_restored_and_gone_on_with(
    kind: str, tmp_path: Path, expected: Row, request: pytest.FixtureRequest
) -> None:
    url = None if kind == "sqlite" else postgres_server.new_database(request.getfixturevalue("postgres"))
    workspace = Workspace.restore(FIRST / "workspace.backup", tmp_path / "restored", url)
    check_opened(workspace, expected["workspace"])
    check_end(workspace, expected["workspace"])
    workspace.close()


def columns(url: str) -> set[tuple[str, str, str, str]]:
    wanted = (
        "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public'"
    )
    with psycopg.connect(url) as connection:
        return set(connection.execute(wanted).fetchall())


@pytest.mark.postgres
def test_a_database_that_is_upgraded_has_the_tables_of_a_new_one(
    folder: Path, dumped: str, postgres: str, tmp_path: Path
) -> None:
    new = postgres_server.new_database(postgres)
    Workspace.open(folder, dumped).close()
    Workspace.open(tmp_path / "new", new).close()
    assert columns(dumped) == columns(new)


@pytest.mark.attacks
@pytest.mark.usefixtures("bits")
def test_people_come_back_to_the_service_and_go_on(folder: Path, expected: Row, arrays: Arrays) -> None:
    """`cual serve` on the release's workspace, with the tokens and the cookie that the release gave out."""
    told = expected["workspace"]
    truth, secrets = truths(told)[2], told["tokens"]
    with running(folder) as service:
        cookie, secret = told["cookies"]["bob"]
        with httpx.Client(base_url=service.url, cookies={cookie: secret}) as browser:
            assert browser.get("/api/me").raise_for_status().json()["name"] == "bob"
        invited = {"token": told["invited"]["eve"]}
        came = httpx.post(f"{service.url}/api/sign-in", json=invited, headers={"Origin": service.url})
        assert came.raise_for_status().json()["name"] == "eve"
        for name in ("cleo", "Zoë"):  # revoked, and locked out
            with Client(service.url, secrets[name]) as nobody, pytest.raises(NotAllowed):
                nobody.agents()
        with Client(service.url, secrets["ann"]) as ann, Client(service.url, secrets["bob"]) as bob:
            people = ann.get("/api/people")
            assert people.pop()["role"] == "admin", "who signs in here: ann never got an address, only a token"
            check(release.timeless(people), release.timeless(told["people"]))
            task = bob.adaptation(2)
            while query := task.ask():
                task.tell(query.id, {sample: truth[sample] for sample in query.ids})
            agent = ann.adaptation(2).finish()
            theirs = told["end"]["learned"]["1.2"]
            assert (agent.version, list(agent.classes)) == (2, theirs["classes"])
            check(by_anybody(release.timeless(task.ledger())), by_anybody(told["end"]["ledgers"]["2"]))
            with opened(folder) as workspace:
                local = workspace.load_agent(1, 2)
            check(release.learned(local), theirs)
            X = arrays["data.animals.probe"]
            assert ann.predict(agent, X).tolist() == local.predict(X).tolist()
            until(lambda: ann.pool(6).state == "ready")


def by_anybody(rows: list[Row]) -> list[Row]:
    """Here bob answers what ann answered there."""
    return [{**row, "person": ""} for row in rows]

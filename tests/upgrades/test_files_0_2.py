"""Agents, adaptations and features that release 0.2.0 wrote are read, gone on with and end in the same bits.

Changed on purpose since: ccic's loss is divided by the number of classes (`CHANGED`), so its head learns
otherwise; how sure cual-plus is of its pseudo-labels is measured otherwise, and an old class that it learns
further takes all that it wins. Bits are compared where this machine rounds as that one did, on which the
files were made (`make_fixtures`); elsewhere what was learned is compared within what rounding explains.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from safetensors import safe_open
from safetensors.numpy import save_file

from cual import Adaptation, Agent, Pool
from cual.cli import app
from cual.data.files import read
from cual.data.folder import FeaturesFolder, FeaturesWriter, Made
from cual.errors import LabelsMissing
from cual.heads import heads
from upgrades import release
from upgrades.release import SECOND, Row, check_still

pytestmark = pytest.mark.more

RELEASE = SECOND
AGENTS = sorted({p.stem.rpartition("-v")[0] for p in (SECOND / "agents").glob("*-v?.agent")})
ADAPTATIONS = sorted(path.name for path in (SECOND / "adaptations").iterdir())
ON_A_FOLDER = "cual-plus-on-a-folder"
CHANGED = "ccic"
"""The method whose head learns something else than it did; whom it asks and what it remembers is as it was."""
Arrays = dict[str, np.ndarray]


def check_outputs(agent: Agent, X: np.ndarray, arrays: Arrays, name: str, same_bits: bool = True) -> None:
    found = release.all_outputs(agent, X)
    assert {key for key in arrays if key.startswith(f"{name}.")} == {f"{name}.{key}" for key in found}
    for key, array in found.items():
        theirs = arrays[f"{name}.{key}"]
        assert (array.dtype, array.shape) == (theirs.dtype, theirs.shape), key
        if same_bits or key == "predictions":
            np.testing.assert_array_equal(array, theirs, err_msg=key)
        else:
            np.testing.assert_allclose(array, theirs, rtol=1e-3, atol=1e-5, err_msg=key)


def check_file(agent: Agent, file: Path, learned: bool = False) -> None:
    """Type, shape and bits of everything that the release's file holds.

    What a head `learned` that learns otherwise by now is not compared, but for its type and shape.
    """
    mine = release.tensors(agent)
    for name, tensor in release.file_tensors(file).items():
        assert (mine[name].dtype, mine[name].shape) == (tensor.dtype, tensor.shape), name
        if learned and agent.method.name == CHANGED and name.startswith("head."):
            continue
        np.testing.assert_array_equal(mine[name], tensor, err_msg=name)


def compared(found: Row, expected: Row) -> tuple[Row, Row]:
    """What is said of an agent and was; of one whose head learns otherwise, without what follows from that."""
    if found["method"] != CHANGED:
        return found, expected
    return _without_head(found), _without_head(expected)


def _without_head(row: Row) -> Row:
    tensors = {name: value for name, value in row.get("tensors", {}).items() if not name.startswith("head.")}
    return {name: value for name, value in row.items() if name != "threshold"} | {"tensors": tensors}


# -- agents ----------------------------------------------------------------------------------------------------


def test_there_is_an_agent_of_every_head() -> None:
    files = [SECOND / "agents" / f"{name}-v0.agent" for name in AGENTS]
    kinds = {type(Agent.load(file).head) for file in files}
    assert kinds == {heads[name] for name in heads.names()}


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_says_what_it_said(
    name: str, version: int, expected: Row, arrays: Arrays, same_bits: bool
) -> None:
    file, told = SECOND / "agents" / f"{name}-v{version}.agent", expected["agents"][name]
    agent = Agent.load(file)
    said, theirs = release.said_of_agent(agent), dict(told["versions"][version])
    np.testing.assert_allclose(said.pop("threshold"), theirs.pop("threshold"), rtol=0 if same_bits else 1e-5)
    check_still(said, theirs)
    probe = arrays[f"data.{told['made']['data']}.probe"]
    check_outputs(agent, probe, arrays, f"agents.{name}.{version}", same_bits)
    check_file(agent, file)


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_fitted_and_adapted_as_it_was(name: str, expected: Row, arrays: Arrays) -> None:
    made = expected["agents"][name]["made"]
    data = {key: arrays[f"data.{made['data']}.{key}"] for key in ("X", "y", "pool0", "ids0", "labels0")}
    then = release.options_then(made["method"], made["options"])
    options = {"seed": made["seed"], "encoder": made["encoder"], **then}
    check_file(
        Agent.fit(data["X"], data["y"], method=made["method"], **options),
        SECOND / "agents" / f"{name}-v0.agent",
    )
    loaded = Agent.load(SECOND / "agents" / f"{name}-v0.agent")
    task = loaded.adapt(data["pool0"], made["budget"], ids=data["ids0"])
    truth = dict(zip(data["ids0"].tolist(), data["labels0"].tolist(), strict=True))
    after = release.answer_all(task, truth).finish()
    check_file(after, SECOND / "agents" / f"{name}-v1.agent", learned=True)
    check_still(*compared(release.said_of_agent(after), expected["agents"][name]["versions"][1]))


@pytest.mark.usefixtures("bits")
def test_an_agent_that_was_put_right_is_taught_on(expected: Row, arrays: Arrays) -> None:
    agent, probe = Agent.load(SECOND / "agents" / "repaired.agent"), arrays["data.animals.probe"]
    check_still(release.learned(agent), expected["repaired"]["before"])
    check_outputs(agent, probe, arrays, "repaired.before")
    after = release.taught_on(agent, arrays["data.animals.pool1"], arrays["data.animals.labels1"].tolist())
    check_still(release.learned(after), expected["repaired"]["after"])
    check_outputs(after, probe, arrays, "repaired.after")


# -- adaptations -----------------------------------------------------------------------------------------------


def moved(name: str, copied: Any) -> Path:
    """A copy of a saved adaptation; one on a features folder names that by its path."""
    path = copied(f"adaptations/{name}")
    if name == ON_A_FOLDER:
        file, features = path / "pool.safetensors", copied("features")
        with safe_open(file, framework="np") as pool:
            meta = json.loads(pool.metadata()["cual"])
        meta["body"]["folder"]["path"] = str(features)
        save_file(release.file_tensors(file), file, {"cual": json.dumps(meta, sort_keys=True)})
    return path


@pytest.mark.parametrize("name", ADAPTATIONS)
def test_an_adaptation_stands_where_it_was_left(name: str, expected: Row, copied: Any, tmp_path: Path) -> None:
    told = expected["adaptations"][name]["saved"]
    task = Adaptation.load(moved(name, copied))
    check_still(release.saved(task), told)
    task.save(tmp_path / "again")
    check_still(release.saved(Adaptation.load(tmp_path / "again")), told)


@pytest.mark.usefixtures("bits")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", ADAPTATIONS)
def test_an_adaptation_goes_on_to_the_same_end(
    name: str, cached: bool, expected: Row, arrays: Arrays, copied: Any
) -> None:
    """Also without the cache, which may be deleted: then everything is computed again from the journal."""
    told = expected["adaptations"][name]
    truth = dict(told["truth"])
    path = moved(name, copied)
    if not cached:
        (path / "cache.safetensors").unlink(missing_ok=True)
    task = Adaptation.load(path)
    while query := task.ask():
        with pytest.raises(LabelsMissing):
            task.finish()
        task.tell(query.id, {query.ids[0]: truth[query.ids[0]]})
        task.save(path)  # into the release's own folder, answer by answer
        task = Adaptation.load(path)
        task.tell(query.id, {sample: truth[sample] for sample in query.ids[1:]})
    came, agent = release.finished(task, truth)
    if agent.method.name == "cual-plus":
        check_still(release.but_sureness(came), release.but_sureness(told["finished"]))
        check_outputs(agent, arrays[f"data.{told['data']}.probe"], arrays, f"adaptations.{name}")
        return
    if agent.method.name == CHANGED:
        mine, theirs = compared(came["agent"], told["finished"]["agent"])
        check_still(came | {"agent": mine}, told["finished"] | {"agent": theirs})
        return
    check_still(came, told["finished"])
    check_outputs(agent, arrays[f"data.{told['data']}.probe"], arrays, f"adaptations.{name}")


# -- features and rows -----------------------------------------------------------------------------------------


def test_a_features_folder_holds_what_it_held_and_takes_more(
    expected: Row, arrays: Arrays, copied: Any
) -> None:
    path, told = copied("features"), expected["features"]["folder"]
    folder, features = FeaturesFolder.open(path), read(path)
    folder.verify()
    assert folder.X[:].dtype == arrays["features"].dtype
    np.testing.assert_array_equal(folder.X[:], arrays["features"])
    for name in ("ids", "labels", "sources", "stamps"):
        assert list(getattr(folder, name)) == told[name]
    assert (features.encoder, features.sha256()) == (told["encoder"], told["sha256"])
    with FeaturesWriter(path, 16, made=Made(told["encoder"], {"size": 4})) as writer:
        assert [writer.stamp(sample) for sample in told["ids"]] == told["stamps"]
        writer.append(np.ones((1, 16)), ["new.jpg"], ["cat"])
    longer = FeaturesFolder.open(path)
    assert list(longer.ids) == [*told["ids"], "new.jpg"]
    np.testing.assert_array_equal(longer.X[:-1], arrays["features"])


def test_a_pool_holds_what_it_held(expected: Row, arrays: Arrays) -> None:
    pool = Pool.load(SECOND / "pool.safetensors")
    assert {"ids": list(pool.ids), "encoder": pool.encoder} == expected["features"]["pool"]
    np.testing.assert_array_equal(pool.take(np.arange(len(pool))).numpy(), arrays["pool"])


@pytest.mark.usefixtures("bits")
def test_the_rows_of_the_default_method_come_out_again(expected: Row, tmp_path: Path) -> None:
    asking = ["--option", "first=diverse", "--option", "then=diverse"]  # as it did then
    command = ["bench", "run", *release.PROTOCOL, "--methods", "cual-plus", *asking, "--seeds", "0"]
    done = typer.testing.CliRunner().invoke(app, [*command, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    pairs = list(zip(release.comparable(rows), expected["rows"], strict=True))
    for found, theirs in pairs[:2]:
        for row in (found, theirs):  # the last scores say how sure it is
            row["iterations"] = row["iterations"][:-1]
        check_still(found, theirs)
    for found, theirs in pairs[2:]:  # here labels of old classes that were learned further differ, so all does
        for same in ("dataset", "method", "seed", "task", "pool_size", "labels_used", "classes_known"):
            assert found[same] == theirs[same]
        assert found["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.03)

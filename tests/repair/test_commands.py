"""`cual teach`, `rename`, `merge`, `remove` and `forget` on real files."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cual import Agent
from cual.cli import app
from repair.labelled import assert_same, draw, fitted
from worlds import World

FIRST = draw(1).of("cat", "dog")
MORE = draw(2)
TEST = draw(3).X


def cual(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "300"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments: object) -> str:
    result = cual(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = cual(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


class Desk:
    """A folder with an agent and labelled samples."""

    def __init__(self, folder: Path) -> None:
        self.agent, self.next, self.last = (folder / f"v{n}.agent" for n in range(3))
        self.more = folder / "more.npz"
        fitted(FIRST).save(self.agent)
        self.ids = np.array([f"img_{row:03}.jpg" for row in range(len(MORE.y))])
        np.savez(self.more, X=MORE.X, y=MORE.y, ids=self.ids)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def taught(desk: Desk) -> Desk:
    done("teach", desk.agent, desk.more, "-o", desk.next)
    return desk


def test_teach_is_what_the_library_does(desk: Desk) -> None:
    before = desk.agent.read_bytes()
    shown = done("teach", desk.agent, desk.more, "-o", desk.next, "--by", "ada", "--why", "labels of May")
    agent = Agent.load(desk.next)
    assert_same(agent, fitted(FIRST).teach(MORE.X, MORE.y), TEST)
    assert "(version 1, 5 classes): taught 60 samples" in shown
    assert ", by ada: labels of May" in shown
    assert desk.agent.read_bytes() == before
    assert "--force" in refused("teach", desk.agent, desk.more, "-o", desk.next)
    told = done("info", desk.next)
    assert "taught 60 samples" in told
    assert "fox, hen, owl" in told


def test_teach_needs_labels(desk: Desk) -> None:
    np.savez(desk.more, X=MORE.X)
    assert "has no labels" in refused("teach", desk.agent, desk.more, "-o", desk.next)
    np.savez(desk.more, X=MORE.X[:, :3], y=MORE.y)
    assert "3 wide" in refused("teach", desk.agent, desk.more, "-o", desk.next)


def test_rename_and_merge(taught: Desk) -> None:
    shown = done("rename", taught.next, "owl", "barn owl", "-o", taught.last)
    assert "owl was renamed to barn owl" in shown
    assert "barn owl" in Agent.load(taught.last).classes_
    shown = done("merge", taught.next, "owl", "fox", "hen", "-o", taught.last, "--force", "--by", "ada")
    assert "(version 2, 3 classes): fox, hen became part of owl, by ada" in shown
    assert Agent.load(taught.last).classes_.tolist() == ["cat", "dog", "owl"]
    assert "did you mean 'owl'?" in refused("rename", taught.next, "owls", "x", "-o", taught.agent, "--force")
    assert "merge_classes" in refused("rename", taught.next, "owl", "hen", "-o", taught.agent, "--force")
    assert "each once" in refused("merge", taught.next, "owl", "owl", "-o", taught.agent, "--force")
    assert Agent.load(taught.agent).version == 0


def test_classes_that_are_numbers(tmp_path: Path) -> None:
    agent = Agent.fit(MORE.X, np.repeat(np.arange(5), 12))
    agent.save(tmp_path / "a")
    done("merge", tmp_path / "a", "0", "3", "-o", tmp_path / "b")
    done("rename", tmp_path / "b", "0", "7", "-o", tmp_path / "c")
    assert Agent.load(tmp_path / "c").classes_.tolist() == [7, 1, 2, 4]
    assert "not a whole number" in refused("rename", tmp_path / "b", "0", "owl", "-o", tmp_path / "d")
    assert "is str, but the classes known so far are int" in refused(
        "remove", tmp_path / "b", "owl", "-o", tmp_path / "d"
    )


def test_remove_asks_for_what_is_missing(desk: Desk) -> None:
    fitted(FIRST, buffer=10).teach(MORE.X, MORE.y).save(desk.next)
    line = refused("remove", desk.next, "owl", "-o", desk.last)
    assert "Give the features of all of them" in line
    assert "--leave-spread" in line
    shown = done("remove", desk.next, "owl", "-o", desk.last, "--data", desk.more)
    assert "owl was removed" in shown
    shown = done("remove", desk.next, "owl", "-o", desk.last, "--leave-spread", "--force")
    assert "how classes spread is left in the head" in shown
    assert "owl" not in Agent.load(desk.last).classes_


def test_forget_by_features_and_ids(taught: Desk, tmp_path: Path) -> None:
    agent = Agent.load(taught.next)
    at = ("forget", taught.next, "-o", taught.last, "--force", "--data", taught.more)
    assert "took back 2 samples" in done(*at, "--id", "img_003.jpg", "--id", "img_040.jpg")
    assert_same(Agent.load(taught.last), agent.forget(MORE.X[[3, 40]]), TEST)
    assert b"img_003" not in taught.last.read_bytes()
    (tmp_path / "ids.txt").write_text("img_003.jpg\n\nimg_005.jpg\n")
    done(*at, "--ids", tmp_path / "ids.txt")
    assert_same(Agent.load(taught.last), agent.forget(MORE.X[[3, 5]]), TEST)
    again = ("forget", taught.last, "-o", taught.agent, "--force", "--data", taught.more, "--id", "img_003.jpg")
    assert "sample 'img_003.jpg': not learned, or taken back already" in refused(*again)
    assert "has no sample 'zebra'" in refused(*at, "--id", "zebra")
    shown = done(*at)
    assert "took back 60 samples; nothing is left of fox, hen, owl" in shown
    assert "give either --data" in refused("forget", taught.next, "-o", taught.last, "--force")
    assert "goes with --task" in refused(*at, "--answers-of", "ada")


def test_forget_what_a_person_answered(world: World, tmp_path: Path) -> None:
    task = world.agent(method="cual-plus", buffer=500).adapt(world.pool, 12, ids=world.ids)
    turn = 0
    while query := task.ask():
        for sample in query.ids:
            task.tell(query.id, {sample: world.truth[sample]}, person=("zoe", "bob")[turn % 2])
            turn += 1
    agent = task.finish()
    task.save(tmp_path / "task")
    agent.save(tmp_path / "v1")
    at = ("forget", tmp_path / "v1", "-o", tmp_path / "v2", "--force", "--task", tmp_path / "task")
    assert "that one person had answered" in done(*at, "--answers-of", "zoe")
    assert_same(Agent.load(tmp_path / "v2"), agent.forget_answers(task, of="zoe"), world.X)
    sample = task.ledger[0]["sample"]
    done(*at, "--id", sample)
    assert_same(Agent.load(tmp_path / "v2"), agent.forget_answers(task, samples=[sample]), world.X)
    assert "eve answered nothing in" in refused(*at, "--answers-of", "eve")
    assert "bob, zoe did" in refused(*at, "--answers-of", "eve")
    assert "whose answers" in refused(*at)
    assert "holds no adaptation" in refused(*at[:-1], tmp_path)

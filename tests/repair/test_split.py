"""Splitting a class: exact where the head is, the rest follows the answers, and what is missing is said."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cual import Agent
from cual.cli import app
from cual.errors import BadLabels, BadOption, SamplesMissing, TooFewSamples, UnknownClass, UnknownSample
from repair.labelled import assert_same, draw, fitted, logits

FIRST = draw(1).of("cat", "dog")
MORE = draw(2)
TEST = draw(3).X
AGENT = fitted(FIRST)
BIRDS = ("owl", "hen")


def called(y: np.ndarray, names: tuple[str, ...] = BIRDS, one: str = "bird") -> np.ndarray:
    """Labels of somebody who takes some classes for one."""
    return np.where(np.isin(y, names), one, y)


def truth_of(X: np.ndarray, data=MORE) -> list[str]:
    by_bytes = {row.tobytes(): label for row, label in zip(data.X, data.y.tolist(), strict=True)}
    return [by_bytes[row.tobytes()] for row in np.asarray(X, np.float32)]


@given(
    st.integers(0, 1000),
    st.lists(st.sampled_from(("owl", "fox", "hen")), min_size=2, max_size=3, unique=True),
    st.sampled_from(["bird", "owl"]),
    st.sampled_from(["cual-plus", "oracle-ridge"]),
)
@settings(max_examples=25, deadline=None)
def test_a_split_agent_is_the_one_that_was_taught_the_labels_from_the_start(
    seed: int, names: list[str], one: str, method: str
):
    more = draw(seed)
    first = fitted(FIRST, method=method)
    agent = first.teach(more.X, called(more.y, tuple(names), one))
    split = agent.propose_split(one, parts=len(names))
    assert split.missing == 0
    after = agent.split_class(one, split.X, truth_of(split.X, more), person="ada", why="two kinds")
    assert_same(after, first.teach(more.X, more.y), TEST)
    row = after.history[-1]
    assert (row["change"], row["class"], row["left"]) == ("split", one, 0)
    assert row["how"] == "exact" or method == "oracle-ridge"  # which has models of classes, fitted again
    assert (row["person"], row["why"]) == ("ada", "two kinds")
    assert one in row["removed_classes"] or one in names or one in after.classes_


def test_groups_are_named_doubtful_samples_answered_and_the_rest_follows():
    agent = AGENT.teach(MORE.X, called(MORE.y))
    split = agent.propose_split("bird", parts=2)
    truth = truth_of(split.X)
    assert (len(split), split.parts) == (24, 2)
    names = [truth[split.examples(group, 1)[0]] for group in range(2)]
    assert set(names) == set(BIRDS)
    asked = split.doubtful(4)
    assert split.margins[asked].max() <= np.delete(split.margins, asked).min()
    y = split.labels(names, {row: truth[row] for row in asked})
    assert np.mean(np.array(y) == truth) > 0.9
    after = agent.split_class("bird", split.X, y, answered=asked)
    assert set(after.classes_) == {"cat", "dog", "fox", "owl", "hen"}
    assert after.history[-1]["answered"] == 4
    assert np.mean(after.predict(draw(3).of(*BIRDS).X) == draw(3).of(*BIRDS).y) > 0.9
    by_people = int(after.learned.human[: len(after.learned)].sum()) + int(after.verified_mask.sum())
    everybody = len(after.learned) + len(after.verified_mask)
    assert by_people == everybody - 20  # those that only followed are no labels of people


def test_answers_may_name_classes_that_no_group_has():
    agent = AGENT.teach(MORE.X, called(MORE.y, ("owl", "hen", "fox")))
    split = agent.propose_split("bird", parts=2)
    truth = truth_of(split.X)
    y = split.labels(["owl", "hen"], {row: label for row, label in enumerate(truth) if label == "fox"})
    assert {y[row] for row, label in enumerate(truth) if label == "fox"} == {"fox"}
    same = split.labels(["owl", "owl"])
    assert same == ["owl"] * len(split)


def test_the_same_class_is_always_grouped_alike():
    agent = AGENT.teach(MORE.X, called(MORE.y))
    one, other = (agent.propose_split("bird", parts=3) for _ in range(2))
    np.testing.assert_array_equal(one.groups, other.groups)
    assert (np.diff(np.bincount(one.groups)) <= 0).all()


def test_what_the_memory_does_not_keep_must_be_given_or_stays():
    small = fitted(FIRST, buffer=20).teach(MORE.X, called(MORE.y))
    kept = small.propose_split("bird")
    assert kept.missing > 0
    with pytest.raises(SamplesMissing, match=f"{kept.missing} samples that 'bird' was learned from"):
        small.split_class("bird", kept.X, truth_of(kept.X))
    after = small.split_class("bird", kept.X, truth_of(kept.X), exact=False)
    assert "bird" in after.classes_
    assert after.history[-1]["left"] == kept.missing
    ids = [f"img_{row}" for row in range(len(MORE.y))]
    whole = small.propose_split("bird", X=MORE.X, ids=ids)  # others among them are left alone
    assert whole.missing == 0
    assert len(whole) == 24
    assert all(MORE.y[int(str(i).removeprefix("img_"))] in BIRDS for i in whole.ids)
    exact = small.split_class("bird", whole.X, truth_of(whole.X))
    mine, theirs = logits(exact, TEST), logits(fitted(FIRST, buffer=20).teach(MORE.X, MORE.y), TEST)
    for name in theirs:
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-5)


def test_what_cannot_be_split():
    agent = AGENT.teach(MORE.X, called(MORE.y))
    with pytest.raises(UnknownClass, match="did you mean 'bird'"):
        agent.propose_split("birds")
    with pytest.raises(BadOption, match="2 to 20 parts"):
        agent.propose_split("bird", parts=1)
    with pytest.raises(TooFewSamples, match="too few for 20 parts"):
        fitted(FIRST).teach(MORE.X[-2:], ["hen"] * 2).propose_split("hen", parts=20)
    split = agent.propose_split("bird")
    with pytest.raises(BadLabels, match="2 groups, but 1 names"):
        split.labels(["owl"])
    with pytest.raises(UnknownSample, match="not 24"):
        split.labels(["owl", "hen"], {24: "owl"})
    with pytest.raises(UnknownSample, match=r"row 0.*not learned as 'bird'"):
        agent.split_class("bird", MORE.of("fox").X, ["owl"] * 12)
    with pytest.raises(BadLabels, match="is int"):
        agent.split_class("bird", split.X, [1] * len(split))


def test_a_head_that_trains_is_trained_again(caplog: pytest.LogCaptureFixture):
    agent = fitted(draw(1), method="cual", head={"hidden": 32, "epochs": 60}).merge_classes("owl", "hen")
    split = agent.propose_split("owl")
    y = truth_of(split.X, draw(1))
    after = agent.split_class("owl", split.X, y)
    assert after.history[-1]["how"] == "trained again"
    assert "trained again, from the" in caplog.text
    assert len(after.models) == 5
    X = draw(3).of("owl", "hen")
    assert np.mean(after.predict(X.X) == X.y) > 0.8


def test_what_was_answered_before_a_split_has_no_class_any_more():
    agent = AGENT.teach(MORE.X, called(MORE.y))
    split = agent.propose_split("bird")
    from cual.repair.answers import present_name

    after = agent.split_class("bird", split.X, truth_of(split.X))
    assert present_name(after.history, "bird", since=1) is None


# -- on the command line ---------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    AGENT.teach(MORE.X, called(MORE.y)).save(tmp_path / "v1.agent")
    ids = [f"img_{row:03}.jpg" for row in range(len(MORE.y))]
    np.savez(tmp_path / "more.npz", X=MORE.X, ids=ids)
    rows = [f"{i},{label}" for i, label in zip(ids, MORE.y.tolist(), strict=True) if label in BIRDS]
    (tmp_path / "birds.csv").write_text("id,label\n" + "\n".join(rows))
    return tmp_path


def cual(*arguments: object, typed: str = ""):
    return CliRunner().invoke(app, [str(a) for a in arguments], input=typed, env={"COLUMNS": "300"})


def test_labels_of_a_file_split_a_class(files: Path):
    at = ("split", files / "v1.agent", "bird", "--into", "owl,hen", "-o", files / "v2.agent")
    result = cual(*at, "--data", files / "more.npz", "--labels", files / "birds.csv", "--by", "ada")
    assert result.exit_code == 0, result.output
    assert "bird was split into hen (12), owl (12), 24 labels of people" in result.stdout
    assert_same(Agent.load(files / "v2.agent"), AGENT.teach(MORE.X, MORE.y), TEST)
    assert "bird was split" in cual("info", files / "v2.agent").stdout


def test_a_few_labels_are_enough_where_every_group_has_one(files: Path):
    first = {label: f"img_{MORE.y.tolist().index(label):03}.jpg" for label in BIRDS}
    (files / "few.csv").write_text("id,label\n" + "".join(f"{i},{name}\n" for name, i in first.items()))
    at = ("split", files / "v1.agent", "bird", "--into", "owl,hen", "-o", files / "v2.agent")
    result = cual(*at, "--data", files / "more.npz", "--labels", files / "few.csv")
    assert result.exit_code == 0, result.output
    agent = Agent.load(files / "v2.agent")
    assert np.mean(agent.predict(MORE.of(*BIRDS).X) == MORE.of(*BIRDS).y) > 0.9
    (files / "few.csv").write_text(f"id,label\n{first['owl']},owl\n")
    result = cual(*at, "--data", files / "more.npz", "--labels", files / "few.csv", "--force")
    assert result.exit_code == 2
    assert "labels no sample of a group of 12 samples" in result.stderr


def test_a_person_names_the_groups_and_answers_in_the_terminal(files: Path):
    agent = Agent.load(files / "v1.agent")
    ids = [f"img_{row:03}.jpg" for row in range(len(MORE.y))]
    split = agent.propose_split("bird", 2, MORE.X, ids)
    truth = truth_of(split.X)
    names = [truth[split.examples(group, 1)[0]] for group in range(2)]
    at = ("split", files / "v1.agent", "bird", "--into", "owl,hen", "-o", files / "v2.agent")
    typed = "u\n" + "\n".join([*names, truth[split.doubtful(1)[0]], "u", "", "d"]) + "\n"
    result = cual(*at, "--data", files / "more.npz", typed=typed)
    assert result.exit_code == 0, result.output
    assert "a group needs a name" in result.stdout
    assert str(split.ids[split.doubtful(1)[0]]) in result.stdout
    after = Agent.load(files / "v2.agent")
    assert after.history[-1]["answered"] == 2
    assert np.mean(after.predict(MORE.of(*BIRDS).X) == MORE.of(*BIRDS).y) > 0.9
    left = cual(*at, "--force", typed="q\n")
    assert left.exit_code == 1


def test_refusals_on_the_command_line(files: Path):
    at = ("split", files / "v1.agent", "bird", "-o", files / "v2.agent")
    assert "two names or more" in cual(*at, "--into", "owl").stderr
    assert "each once" in cual(*at, "--into", "owl,owl").stderr
    assert "no class 'birds'" in cual("split", files / "v1.agent", "birds", *at[3:], "--into", "a,b").stderr
    (files / "bad.csv").write_text("id,label\nimg_999.jpg,owl\n")
    assert "names no sample" in cual(*at, "--into", "owl,hen", "--labels", files / "bad.csv").stderr
    assert not (files / "v2.agent").exists()

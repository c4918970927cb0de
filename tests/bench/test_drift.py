"""Streams with drift: which rows pools hold, how features change, what rows of results say of it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cual.bench.drift import SMOOTH, Change, Drift
from cual.bench.folder import RunFolder, read_rows
from cual.bench.jobs import run
from cual.bench.looks import look_stream
from cual.bench.measures import auroc
from cual.bench.results import grouped
from cual.bench.rows import Truth
from cual.bench.runner import Data, fit_first, load, walk
from cual.bench.settings import DEFAULTS, OF_DRIFT, Setting
from cual.bench.streams import Protocol, Stream, make_stream
from cual.cli import app
from cual.data.files import read, write
from cual.data.table import Table
from cual.errors import BadFile, BadLabels, BadOption, TooFewSamples

pytestmark = pytest.mark.more

LOOKS = ("photo", "art", "sketch")
COLUMNS = {
    "look", "frozen_accuracy", "accuracy_before", "first_look_accuracy", "first_look_frozen_accuracy",
    "novelty_auroc_first", "novelty_auroc_last", "novel_share", "novel_share_first", "novel_share_last",
    "drifted_queried",
}  # fmt: skip


def labels_and_looks(sizes: dict[str, list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """So many samples of each class in each look, scrambled."""
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts) for counts in sizes.values()])
    looks = np.repeat(list(sizes), [sum(counts) for counts in sizes.values()])
    order = np.random.default_rng(0).permutation(len(y))
    return y[order], looks[order]


Y, LOOK = labels_and_looks({look: [30] * 5 for look in LOOKS})


@pytest.fixture(scope="module")
def looks_file(tmp_path_factory) -> Path:
    """Five classes in three looks: a look moves all of its samples."""
    rng = np.random.default_rng(0)
    centres, moves = rng.normal(0, 1.5, (5, 24)), rng.normal(0, 1, (3, 24))
    places = np.searchsorted(sorted(LOOKS), LOOK)
    X = (centres[Y] + moves[places] + rng.normal(0, 1, (len(Y), 24))).astype(np.float16)
    path = tmp_path_factory.mktemp("looks") / "looks.npz"
    write(path, Table(X, Y, class_names=tuple("abcde"), domain=LOOK))
    return path


@pytest.fixture
def setting(looks_file) -> Setting:
    named = ("photo", "sketch", "art")
    return Setting(str(looks_file), ("cual-plus",), (3,), first=3, budget=0.1, drift="looks", looks=named)


def steps(setting: Setting, data: Data | None = None, seed: int = 3):
    data = data or load(setting.features)
    method = setting.methods[0]
    agent = fit_first(setting, method, seed, data, data.stream(setting, seed))
    return agent, list(walk(setting, method, seed, data, agent))


def rows_of(stream: Stream) -> list[np.ndarray]:
    tests = [stream.test, *(t.test for t in stream.tasks if t.test is not None)]
    return [stream.first, *(t.rows for t in stream.tasks), *(rows for t in tests for rows in t.values())]


# -- looks -----------------------------------------------------------------------------------------------------

named_looks = st.lists(st.sampled_from(LOOKS), min_size=2, max_size=5)
drifts = st.builds(
    Drift,
    kind=st.just("looks"),
    looks=named_looks.map(tuple),
    pools=st.sampled_from(["both", "drift", "novelty"]),
)
protocols = st.builds(
    Protocol,
    first=st.integers(1, 4),
    increment=st.integers(1, 3),
    rarity=st.none() | st.just(10.0),
    turn=st.integers(0, 4),
    drift=drifts,
)


@given(protocols, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_no_test_row_is_in_a_pool_and_no_row_in_two(protocol, seed):
    stream = look_stream(Y, LOOK, protocol, seed)
    test = {int(r) for task in stream.tasks for rows in task.test.values() for r in rows}
    test |= {int(r) for rows in stream.test.values() for r in rows}
    seen = set(stream.first.tolist())
    assert len(seen) == len(stream.first)
    for task in stream.tasks:
        pool = set(task.rows.tolist())
        assert len(pool) == len(task.rows)
        assert not pool & seen
        seen |= pool
    assert not test & seen


@given(protocols, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_looks_come_in_order_and_classes_stay(protocol, seed):
    drift = protocol.drift
    stream = look_stream(Y, LOOK, protocol, seed)
    assert set(LOOK[stream.first]) == {drift.looks[0]} == {stream.look}
    expected = [drift.looks[0] if drift.pools == "novelty" else look for look in drift.looks[1:]]
    assert [task.look for task in stream.tasks] == expected
    known = stream.order[: protocol.first]
    assert {int(c) for c in Y[stream.first]} == set(known)
    for task in stream.tasks:
        assert set(LOOK[task.rows]) == {task.look}
        assert task.old == known
        left = 0 if drift.pools == "drift" else min(protocol.increment, 5 - len(known))
        assert task.new == stream.order[len(known) : len(known) + left]
        assert {int(c) for c in Y[task.rows]} == set(task.old + task.new)
        known += task.new
        tested = stream.test_rows(task.number)
        assert set(LOOK[tested]) == {task.look}
        assert stream.tested(task.number) == known
        assert len(tested) == 6 * len(known), "20 % of each class in the look"


@given(protocols, st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_same_seed_same_bytes(protocol, seed):
    one, two = (look_stream(Y, LOOK, protocol, seed) for _ in range(2))
    assert [rows.tobytes() for rows in rows_of(one)] == [rows.tobytes() for rows in rows_of(two)]


def test_test_rows_do_not_depend_on_which_looks_are_named():
    every = look_stream(Y, LOOK, Protocol(first=4, drift=Drift("looks", LOOKS)), 0)
    one = look_stream(Y, LOOK, Protocol(first=4, drift=Drift("looks", ("photo", "sketch"))), 0)
    assert {c: r.tolist() for c, r in every.tasks[1].test.items()} == {
        c: r.tolist() for c, r in one.tasks[0].test.items()
    }
    assert every.first.tolist() == one.first.tolist()


def test_without_names_looks_come_in_the_order_of_their_names():
    stream = look_stream(Y, LOOK, Protocol(first=3, drift=Drift("looks")), 0)
    assert [stream.look, *(task.look for task in stream.tasks)] == sorted(LOOKS)


def test_a_look_holds_something_out_only_where_it_comes_again():
    once = look_stream(Y, LOOK, Protocol(first=3, drift=Drift("looks", ("photo", "art"))), 0)
    again = look_stream(Y, LOOK, Protocol(first=3, drift=Drift("looks", ("photo", "art", "photo", "art"))), 0)
    assert len(once.first) == 3 * 24
    assert len(again.first) == 3 * 16
    assert len(once.tasks[0].rows) == 4 * 24
    assert [len(task.rows) for task in again.tasks] == [
        4 * 12,  # art comes twice
        3 * 8 + 2 * 24,  # held-out photos of the first classes, and all of those met later
        4 * 12 + 24,  # the last class was not in the first pool of art
    ]


def test_classes_that_a_look_does_not_have():
    y, looks = labels_and_looks({"a": [20, 20, 0, 20], "b": [20, 0, 20, 0], "c": [20, 20, 20, 20]})
    for seed in range(5):
        stream = look_stream(y, looks, Protocol(first=2, drift=Drift("looks", ("a", "b", "c"))), seed)
        assert 2 not in stream.order[:2], "it cannot be learned from a look that does not have it"
        second, third = stream.tasks
        assert second.new == tuple(c for c in stream.order[2:] if c in (0, 2))[:1], "the next one that is there"
        assert set(stream.tested(1)) == {c for c in (0, 2) if c in stream.introduced(1)}
        assert {int(c) for c in y[second.rows]} == set(stream.tested(1))
        assert len(third.new) == 1
        assert set(stream.tested(2)) == set(stream.introduced(2)) == {0, 1, 2, 3}


def test_turns_make_every_class_the_unknown_one():
    drift = Drift("looks", ("photo", "art"))
    last = [look_stream(Y, LOOK, Protocol(first=4, turn=t, drift=drift), 7).order[-1] for t in range(5)]
    assert sorted(last) == [0, 1, 2, 3, 4]
    plain = [make_stream(Y, Protocol(first=4, turn=t), 7).order[-1] for t in range(5)]
    assert plain == last


@pytest.mark.parametrize(
    ("protocol", "error", "says"),
    [
        ({"drift": Drift("looks", ("photo", "oil"))}, BadOption, "no look is called oil; the file has art"),
        ({"drift": Drift("looks"), "imbalance": 4.0}, BadOption, "imbalance thins out classes"),
        ({"drift": Drift("looks", ("photo", "art")), "first": 6}, TooFewSamples, "enough samples of 5 classes"),
    ],
)
def test_looks_that_make_no_stream(protocol, error, says):
    with pytest.raises(error, match=says):
        look_stream(Y, LOOK, Protocol(**protocol), 0)


def test_a_single_look_cannot_drift():
    with pytest.raises(BadOption, match="the file has one look"):
        look_stream(Y, np.full(len(Y), "photo"), Protocol(), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "fade"},
        {"kind": "shift", "pools": "all"},
        {"kind": "shift", "looks": ("a", "b")},
        {"kind": "looks", "looks": ("a",)},
        {"kind": "shift", "strength": 0.0},
        {"kind": "shift", "strength": float("nan")},
    ],
)
def test_drifts_that_make_no_sense(wrong):
    with pytest.raises(BadOption):
        Drift(**wrong)


# -- smooth changes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SMOOTH)
def test_a_change_is_the_seeds_and_nothing_at_zero(kind, blobs):
    X = blobs.X.astype(np.float32)
    one, two, other = (Change.of(X[:100], kind, seed) for seed in (0, 0, 1))
    assert one.at(X, 0.7).tobytes() == two.at(X, 0.7).tobytes()
    assert not np.allclose(one.at(X, 0.7), other.at(X, 0.7))
    np.testing.assert_allclose(one.at(X, 0.0), X, atol=1e-5)


def moved(kind: str, X: np.ndarray, amount: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centred features before and after a change, and D."""
    mean = X.mean(axis=0)
    deviation = np.sqrt(np.mean([np.sum((x - mean) ** 2) for x in X]))
    return X - mean, Change.of(X, kind, 3).at(X, amount) - mean, deviation


def test_a_shift_moves_every_sample_by_so_many_deviations(blobs):
    before, after, deviation = moved("shift", blobs.X.astype(np.float64), 0.8)
    steps = after - before
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 0.8 * deviation, rtol=1e-3)
    np.testing.assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-4)


def test_a_rotation_keeps_lengths_and_angles_and_turns_by_so_many_radians(blobs):
    before, after, _ = moved("rotation", blobs.X.astype(np.float64), 0.8)
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-2)
    lengths = np.linalg.norm(before, axis=1)
    cosines = (before * after).sum(axis=1) / lengths**2
    np.testing.assert_allclose(np.arccos(cosines), 0.8, atol=1e-3)


def test_a_scale_stretches_half_of_the_features_and_shrinks_the_others(blobs):
    before, after, _ = moved("scale", blobs.X.astype(np.float64), 1.0)
    gains = np.sort(np.linalg.norm(after, axis=0) / np.linalg.norm(before, axis=0))
    np.testing.assert_allclose(gains, [0.5] * 24 + [2.0] * 24, rtol=1e-3)


@pytest.mark.parametrize("kind", SMOOTH)
def test_strengths_grow_from_task_to_task_on_the_rows_of_the_usual_stream(kind, blobs_file):
    usual = Setting(str(blobs_file), seeds=(0,))
    drifting = replace(usual, drift=kind, strength=0.3)
    data = load(usual.features)
    stream, plain = data.stream(drifting, 0), data.stream(usual, 0)
    assert [task.rows.tobytes() for task in stream.tasks] == [task.rows.tobytes() for task in plain.tasks]
    seen = [data.seen(drifting, 0, stream, t).X for t in range(len(stream.tasks) + 1)]
    assert seen[0] is data.features.X
    distances = [float(np.linalg.norm(X - seen[0].astype(np.float32))) for X in seen]
    assert distances == sorted(distances)
    assert distances[1] > 0
    assert data.seen(replace(drifting, pools="novelty"), 0, stream, 3) is data.features
    assert data.seen(usual, 0, stream, 3) is data.features


def test_drift_alone_shows_no_new_class(blobs_file):
    setting = Setting(str(blobs_file), first=3, drift="shift", pools="drift")
    data = load(setting.features)
    stream = data.stream(setting, 0)
    assert len(stream.tasks) == 4
    for task in stream.tasks:
        assert task.new == ()
        assert {int(c) for c in data.truth.codes[task.rows]} == set(stream.order[:3]) == set(task.old)
        assert not set(task.rows.tolist()) & set(stream.first.tolist())


def test_samples_that_drifted_are_told_to_a_bound_again(blobs_file):
    setting = Setting(str(blobs_file), ("oracle-ridge",), (0,), first=3, budget=1, drift="shift", pools="drift")
    _, ran = steps(setting, seed=0)
    assert all(step.row["labels_used"] == step.row["pool_size"] for step in ran)


def test_given_features_are_taken_task_by_task(blobs):
    data = Data(blobs, Truth.of(blobs), changed=[blobs.X + 1, blobs.X + 2])
    setting = Setting("blobs", first=5, drift="given")
    stream = data.stream(setting, 0)
    assert [float((data.seen(setting, 0, stream, t).X - blobs.X).mean().round(1)) for t in range(3)] == [
        0,
        1,
        2,
    ]
    with pytest.raises(BadOption, match="features for 2 tasks, not 5"):
        data.stream(replace(setting, first=2), 0)


# -- settings and files ----------------------------------------------------------------------------------------


def test_a_setting_without_drift_is_what_it_was(blobs_file):
    setting = Setting(str(blobs_file))
    for row in (setting.to_json(), setting.varied()):
        assert not {*OF_DRIFT, "turn"} & set(row)
    assert setting.to_json() == {
        "features": "blobs.npz", "methods": ["cual"], "seeds": [0], "first": 2, "increment": 1,
        "budget": 0.0125, "buffer": 2500, "name": "blobs", "rarity": None, "reuse": True, "natural": False,
        "imbalance": None, "wrong": 0.0, "wrong_among_new": False, "synonyms": 0.0, "skip": 0.0,
        "device": "cpu", "options": {},
    }  # fmt: skip


def test_a_setting_with_drift_says_all_of_it(setting):
    row = setting.to_json()
    assert {name: row[name] for name in OF_DRIFT} == {
        "drift": "looks",
        "looks": ["photo", "sketch", "art"],
        "strength": 0.5,
        "pools": "both",
    }
    assert "turn" not in row
    assert replace(setting, turn=2).to_json()["turn"] == 2


def test_options_of_a_drift_without_one(setting):
    for wrong in ({"looks": ("a", "b")}, {"looks": (), "pools": "drift"}):
        with pytest.raises(BadOption, match="options of a drift"):
            replace(setting, drift=None, **wrong)


def test_looks_are_kept_in_files_and_counted_in_their_hash(looks_file, tmp_path):
    table = read(looks_file)
    assert table.domain.tolist() == LOOK.tolist()
    assert replace(table, domain=None).sha256() != table.sha256()
    with pytest.raises(BadLabels, match="domain must hold a name or whole number for each of 450 rows"):
        replace(table, domain=LOOK[:-1])
    write(tmp_path / "plain.npz", replace(table, domain=None))
    with pytest.raises(BadFile, match="does not say of which look"):
        run(Setting(str(tmp_path / "plain.npz"), drift="looks"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- rows ------------------------------------------------------------------------------------------------------


def test_columns_against_the_true_labels(setting):
    data = load(setting.features)
    frozen, ran = steps(setting)
    assert [step.row["look"] for step in ran] == ["sketch", "art"]
    before = frozen
    for step in ran:
        row, task = step.row, step.task
        assert set(row) >= COLUMNS
        first = np.concatenate([data.stream(setting, 3).test[c] for c in data.stream(setting, 3).order[:3]])
        present = np.concatenate([task.test[c] for c in (*task.old, *task.new)])

        def accuracy(agent, rows):  # classes have as many test rows each
            return pytest.approx(np.mean(agent.predict(data.features.X[rows]) == data.truth.labels[rows]))

        assert row["accuracy"] == accuracy(step.agent, present)
        assert row["frozen_accuracy"] == accuracy(frozen, present)
        assert row["accuracy_before"] == accuracy(before, present)
        assert row["first_look_accuracy"] == accuracy(step.agent, first)
        assert row["first_look_frozen_accuracy"] == accuracy(frozen, first)
        novel = ~np.isin(data.truth.labels[task.rows], before.classes_)
        rounds = step.adaptation.rounds
        assert row["novelty_auroc_first"] == auroc(rounds[0].scores, novel[rounds[0].rows])
        assert row["novelty_auroc_last"] == auroc(rounds[-1].scores, novel[rounds[-1].rows])
        assert row["novel_share"] == novel.mean() == row["novel_in_pool"] / row["pool_size"]
        assert row["novel_share_first"] == rounds[0].novel / row["pool_size"]
        assert row["novel_share_last"] == step.adaptation.outlook.novel / row["pool_size"]
        assert row["drifted_queried"] == row["labels_used"] - row["novel_queried"]
        before = step.agent


def test_nothing_has_drifted_where_the_first_look_comes_again(setting):
    _, ran = steps(replace(setting, looks=("photo", "photo", "art")))
    assert ran[0].row["drifted_queried"] == 0 < ran[1].row["drifted_queried"]
    _, ran = steps(replace(setting, pools="novelty"))
    assert [step.row["drifted_queried"] for step in ran] == [0, 0]


def test_only_paid_labels_are_seen(setting):
    data = load(setting.features)
    _, clean = steps(setting)
    pools = np.concatenate([s.task.rows for s in clean])
    unpaid = np.setdiff1d(pools, [sample for s in clean for sample in s.adaptation.answers])
    poisoned = data.truth.labels.copy()
    poisoned[unpaid] = "a"
    _, again = steps(setting, Data(data.features, replace(data.truth, labels=poisoned)))
    for one, two in zip(clean, again, strict=True):
        assert one.adaptation.answers == two.adaptation.answers
        assert one.row["per_class"] == two.row["per_class"]


def test_a_resumed_stream_measures_against_the_same_first_agent(setting, tmp_path):
    run(setting, tmp_path)
    lines = (tmp_path / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text(lines[0])
    _, ran = steps(setting)
    RunFolder(tmp_path).save_agent(ran[0].agent, "cual-plus", 3, 1)
    run(setting, tmp_path)
    rows = read_rows(tmp_path / "results.jsonl")
    timed = ("seconds", "timings")
    assert {k: v for k, v in rows[1].items() if k not in timed} == {
        k: v for k, v in json.loads(lines[1]).items() if k not in timed
    }
    for change in ({"drift": None, "looks": ()}, {"looks": LOOKS}, {"pools": "drift"}, {"turn": 1}):
        with pytest.raises(BadOption, match="holds another run"):
            run(replace(setting, **change), tmp_path)


def test_rows_with_and_without_drift_are_told_apart(setting, make_row):
    usual = make_row("cual", 0, 1, 0.5)
    rows = [usual, usual | setting.varied(), usual | json.loads(json.dumps(setting.varied()))]
    groups = grouped(rows)
    assert [len(group.rows) for group in groups] == [1, 2]
    assert groups[0].varied["drift"] is DEFAULTS["drift"] is None


# -- the command -----------------------------------------------------------------------------------------------


def test_the_command_runs_and_reports_drift(looks_file, tmp_path):
    out = tmp_path / "out"
    flags = f"--features {looks_file} --methods cual-plus,oracle-ridge --seeds 3,4 --first 3 --budget 0.1"
    drift = "--drift looks --looks photo,sketch,photo"
    done = CliRunner().invoke(app, [*f"bench run {flags} {drift} --out {out}".split()])
    assert done.exit_code == 0, done.output
    rows = read_rows(out / "results.jsonl")
    assert [row["look"] for row in rows] == ["sketch", "photo"] * 4
    assert all(set(row) >= COLUMNS and row["looks"] == ["photo", "sketch", "photo"] for row in rows)
    reported = CliRunner().invoke(app, ["bench", "report", str(out)])
    assert reported.exit_code == 0, reported.output
    assert "questions on drifted old" in reported.output
    assert list((out / "report" / "figures").glob("*drift.svg"))
    smooth = "--drift rotation --strength 0.4 --pools drift"
    done = CliRunner().invoke(app, [*f"bench run {flags} {smooth} --out {tmp_path / 'smooth'}".split()])
    assert done.exit_code == 0, done.output
    rows = read_rows(tmp_path / "smooth" / "results.jsonl")
    assert [row["look"] for row in rows] == ["rotation 0.4", "rotation 0.8"] * 4
    assert all(row["novel_share"] == 0 for row in rows)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--drift fade", "drift is one of"),
        ("--looks photo,sketch", "options of a drift"),
        ("--drift looks --looks photo,oil", "no look is called oil"),
        ("--drift given", "features for 0 tasks"),
    ],
)
def test_the_command_refuses(flags, says, looks_file, tmp_path):
    words = f"bench run --features {looks_file} --first 3 {flags} --out {tmp_path / 'out'}".split()
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0
    assert says in f"{done.output} {done.exception}"
    assert not (tmp_path / "out" / "results.jsonl").exists()

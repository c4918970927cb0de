"""Labels as people type them and as tables record them, read in one place."""

import pytest

from cual.data.columns import IDS, LABELS, TEXTS, column
from cual.data.labels import ClassNames, as_label, read_label, recorded_label, unreadable
from cual.errors import BadFile, BadLabels

NAMES = ClassNames(("cat", "barn  owl"))
NUMBERS = ClassNames((0, 7))


@pytest.mark.parametrize(
    ("text", "label"),
    [("cat", "cat"), (" cat ", "cat"), ("barn  owl", "barn  owl"), ("sea\teagle", "sea eagle"), ("7", "7")],
)
def test_a_typed_name(text, label):
    assert read_label(text, NAMES) == label


@pytest.mark.parametrize(("text", "label"), [("7", 7), (" 07 ", 7), ("-1", -1)])
def test_a_typed_number(text, label):
    assert read_label(text, NUMBERS) == label


@pytest.mark.parametrize(
    ("text", "names", "says"),
    [
        ("owl", NUMBERS, "'owl' is not a whole number, but the known classes are, for example 0"),
        ("", NUMBERS, "not a whole number"),
        (str(2**63), NUMBERS, "at most 64 bits"),
        ("  ", NAMES, "is empty"),
        ("a\x1bb", NAMES, "control characters"),
        ("a\u202eb", NAMES, "control characters"),
        ("x" * 101, NAMES, "has 101 characters; at most 100"),
    ],
)
def test_what_cannot_be_a_label(text, names, says):
    with pytest.raises(BadLabels, match=says):
        read_label(text, names, longest=100)


def test_a_known_name_is_taken_however_long_it_is():
    long = ClassNames(("x" * 300,))
    assert read_label("x" * 300, long, longest=100) == "x" * 300
    assert read_label(" " + "x" * 300, long, longest=100) == "x" * 300


def test_joined_letters_are_readable():
    assert unreadable("می‌خواهم") == ""  # Persian needs a joiner that is not printable


@pytest.mark.parametrize("value", [True, None, 2.5, "", 2**63, -(2**63) - 1])
def test_what_is_no_plain_label(value):
    with pytest.raises(BadLabels):
        as_label(value)


@pytest.mark.parametrize(
    ("cell", "label"),
    [
        (3, 3),
        (3.0, 3),
        (2.5, "2.5"),
        ("", None),
        (None, None),
        (True, "True"),
        (2**64, str(2**64)),
    ],
)
def test_a_recorded_label(cell, label):
    assert recorded_label(cell) == label


def test_columns_by_their_usual_names(tmp_path):
    path = tmp_path / "t.csv"
    assert column(path, ["sample", "class", "utterance"], None, IDS) == "sample"
    assert column(path, ["sample", "class", "utterance"], None, LABELS) == "class"
    assert column(path, ["sample", "class", "utterance"], None, TEXTS) == "utterance"
    assert column(path, ["a", "id"], "a", IDS) == "a"
    assert column(path, ["a"], None, IDS) is None
    with pytest.raises(BadFile, match="no column 'b'; it has a"):
        column(path, ["a"], "b", IDS)

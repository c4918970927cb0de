"""GitHub's Markdown becomes what Python-Markdown reads: every list, however it is indented, stays one."""

import re
from pathlib import Path

import pytest
from handbook import github

markdown = pytest.importorskip("markdown", reason="the extra docs is not installed")
ROOT = Path(__file__).parents[2]


def html(text: str) -> str:
    read = markdown.markdown(github.reindented(text), extensions=["sane_lists", "fenced_code"])
    return re.sub(r"\s+", " ", read).replace("> <", "><")


def test_what_stands_below_an_item_is_part_of_it() -> None:
    read = html("1. one\n\n   more of it\n\n   - inside\n   - again\n2. two")
    assert read == (
        "<ol><li><p>one</p><p>more of it</p><ul><li>inside</li><li>again</li></ul></li><li><p>two</p></li></ol>"
    )


def test_a_list_needs_no_empty_line_before_it() -> None:
    assert html("Steps:\n- a\n- b") == "<p>Steps:</p><ul><li>a</li><li>b</li></ul>"
    inside = html("- a\n\n  more\n- b")
    assert inside.count("<li>") == 2


def test_lines_of_an_item_stay_one_paragraph() -> None:
    assert html("- a\n  goes on\nand on\n- b") == "<ul><li>a goes on and on</li><li>b</li></ul>"


def test_code_keeps_its_own_indent() -> None:
    text = "1. do\n\n   ```\n   if x:\n       y\n   ```\n2. done"
    assert "    ```\n    if x:\n        y\n    ```" in github.reindented(text)
    alone = "```\n- no list\n  - nor this\n```"
    assert github.reindented(alone) == alone


def test_after_a_list_comes_what_follows_it() -> None:
    assert html("- a\n\nnot in it") == "<ul><li>a</li></ul><p>not in it</p>"


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Two words", "two-words"),
        ("Learners: A_s, which scores a pool", "learners-a_s-which-scores-a-pool"),
        ("ONNX, scikit-learn & MLflow", "onnx-scikit-learn--mlflow"),
        ("`cual fit`", "cual-fit"),
    ],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert github.slug(heading) == anchor

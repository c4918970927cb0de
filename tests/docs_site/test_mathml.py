"""Formulas are drawn when the site is built, and one that cannot be drawn is an error."""

import re
from pathlib import Path

import pytest
from handbook.mathml import formulas

pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
ROOT = Path(__file__).parents[2]


def inline(tex: str) -> str:
    return formulas(f'<span class="arithmatex">\\({tex}\\)</span>')


def test_a_formula_is_mathml() -> None:
    drawn = inline("a_i &lt; 2")
    assert drawn.startswith("<math ")
    assert "<msub><mi>a</mi><mi>i</mi></msub>" in drawn
    assert "<mo>&#x0003C;</mo>" in drawn


def test_a_formula_of_its_own_is_a_block() -> None:
    drawn = formulas('<p>x</p><div class="arithmatex">\\[\nx\n\\]</div>')
    assert drawn.startswith('<p>x</p><div class="formula"><math ')
    assert 'display="block"' in drawn


def test_a_command_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\\nosuchthing"):
        inline(r"x + \nosuchthing")


@pytest.mark.parametrize("page", ["method", "cual-plus", "drift"])
def test_all_formulas_of_the_method_pages_are_drawn(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"\$\$\n(.*?)\$\$", text, flags=re.DOTALL)
    assert found
    for tex in found:
        assert "<math" in inline(tex.replace("&", "&amp;").replace("<", "&lt;"))

"""How checks are found, named and reported; the checks of options; and the example of the page."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts import OF_OPTIONS, Breaks, expect_caught
from cual.acquisition.ambiguous import Ambiguous
from cual.acquisition.top import Top
from cual.checks import (
    check_acquisition,
    check_belief,
    check_head,
    check_learner,
    check_method,
    check_uncertainty,
    checks,
)
from cual.errors import UnknownName
from cual.heads import Ridge
from cual.learners import Novelty
from cual.methods import methods
from cual.pseudo_labels import MostNovel
from cual.uncertainty import KNN

pytestmark = pytest.mark.more

PAGE = Path(__file__).parents[2] / "docs" / "checks.md"
breaks = Breaks()


@breaks("parameters_are_attributes", "takes the option 'share', but does not keep it as an attribute")
class KeepsNothing(Top):
    def __init__(self, share: float = 0.5) -> None:
        del share


@breaks("parameters_are_attributes", "takes options that its constructor does not name (*options)")
@breaks("unknown_options_are_refused", "takes the option 'no_part_has_such_an_option', which it cannot have")
class TakesAnything(Top):
    def __init__(self, **options: Any) -> None:
        self.options = options


@breaks("options_survive_json", "cannot be written as JSON: Object of type set")
class HoldsASet(Top):
    def __init__(self, classes: Any = frozenset({1})) -> None:
        self.classes = set(classes)


@breaks("options_survive_json", "has the option classes=(1, 2), which JSON gives back as [1, 2]")
class HoldsATuple(Top):
    def __init__(self, classes: Any = (1, 2)) -> None:
        self.classes = classes


@breaks("options_survive_json", "has the option share=1.0, which JSON gives back as 2.0")
class KeepsSomethingElse(Top):
    def __init__(self, share: float = 0.5) -> None:
        self.share = 2 * share


@pytest.mark.parametrize(("part", "check", "said"), breaks.parts)
def test_a_part_with_wrong_options_is_caught(part: type, check: str, said: str) -> None:
    expect_caught(part(), check, said)


def test_every_check_of_options_can_fail() -> None:
    assert breaks.names == OF_OPTIONS


@pytest.mark.parametrize(
    ("check", "part"),
    [
        (check_acquisition, Ambiguous()),
        (check_belief, MostNovel(alpha=0.3)),
        (check_uncertainty, KNN(k=2)),
        (check_head, Ridge(shrink=1.0)),
        (check_learner, Novelty(unnamed=True, uncertainty="knn")),
        (check_method, methods["cual-plus"]),
    ],
)
def test_a_sound_part_passes(check: Any, part: object) -> None:
    check(part)
    assert len(checks(part)) > 5


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (check_acquisition, "Nothing() has no choose, which every acquisition strategy needs"),
        (check_belief, "Nothing() has no choose, doubts, which every rule of belief needs"),
        (check_uncertainty, "Nothing() has no fit, distances, load"),
        (check_head, "Nothing() has no n_classes, logits, learn, state, from_state"),
        (check_learner, "Nothing() has no unnamed, check, begin, detector"),
        (check_method, "Nothing() has no learner, first, then, believe, head, to_json"),
    ],
)
def test_a_part_that_lacks_something_is_told_what(check: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        check(Nothing())


class Nothing:
    pass


def test_what_is_none_of_the_parts_is_refused() -> None:
    with pytest.raises(
        UnknownName, match="Nothing is not registered, and has not what makes it one of: rule of"
    ):
        checks(Nothing())


class Brings(Top):
    """A strategy that is broken for one of the parameters that it brings."""

    def __init__(self, more: int = 5) -> None:
        self.more = more

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        return [{"more": 0}, {"more": 1}]

    def choose(self, view: Any, n: int, rng: np.random.Generator) -> Any:
        return super().choose(view, n + self.more, rng)


def test_a_class_is_checked_with_the_parameters_that_it_brings() -> None:
    named = dict(checks(Brings))
    named["never_asks_about_more_than_n (more=0)"]()
    with pytest.raises(
        AssertionError, match=r"^Brings\(more=1\) asks about 1 samples instead of at most 0, given"
    ):
        named["never_asks_about_more_than_n (more=1)"]()
    with pytest.raises(AssertionError, match="more=1"):
        check_acquisition(Brings)


def test_an_object_is_checked_as_it_is() -> None:
    check_acquisition(Brings(more=0))
    with pytest.raises(AssertionError, match=r"Brings\(more=3\)"):
        check_acquisition(Brings(more=3))


def test_parameters_must_be_some() -> None:
    class BringsNone(Brings):
        @classmethod
        def unit_test_params(cls) -> list[dict[str, Any]]:
            return []

    with pytest.raises(AssertionError, match="gives nothing, so that nothing is checked"):
        checks(BringsNone)


def test_an_error_is_told_with_its_input() -> None:
    class Fails(Top):
        def choose(self, view: Any, n: int, rng: np.random.Generator) -> Any:
            return np.array([view.scores.argmax()])[:n]

    with pytest.raises(
        AssertionError, match=r"raises ValueError.*argmax of an empty sequence.*given 0 samples, n"
    ):
        check_acquisition(Fails())


def test_checks_need_no_test_framework() -> None:
    script = (
        "import sys, cual.checks; print([m for m in ('pytest', 'hypothesis', 'fastapi') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_the_example_of_the_page_works(tmp_path: Path) -> None:
    """The page's strategy passes its checks, and the one that it shows as broken fails with what it says."""
    text = PAGE.read_text(encoding="utf-8")
    example, test, broken = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (said,) = re.findall(r"```\n(AssertionError: .*?)\n```", text, flags=re.DOTALL)
    (tmp_path / "every_other.py").write_text(example, encoding="utf-8")
    (tmp_path / "test_every_other.py").write_text(test, encoding="utf-8")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    told = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert re.search(r"^\d\d passed", told.stdout, flags=re.MULTILINE), told.stdout + told.stderr
    with pytest.raises(AssertionError) as caught:
        exec(compile(broken, "docs/checks.md", "exec"), {})
    assert f"AssertionError: {caught.value}" == said.replace("\n", " ")

"""Which rooms are mutated, and which tests have to notice. No mutants here.

The examples in a room's docstrings are tests of it as well. What other rooms' tests would notice besides is not
asked: a room's own tests say what it must do.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
OPTIONS = "tests/test_docs.py::test_the_components_page_has_a_row_for_every_option_with_its_default"
"""Whether every option has the default that docs/components.md gives it."""
STACKED = "uncertainty/stacked.py"
ALIKE = "learners/prototypes/search.py"
DRAWN = "tests/deploy/test_onnx.py"
"""Whether a part's graph says what the part says: written as a file and run, which these tests do for all."""
RELEASES = (
    *(f"tests/upgrades/{file}::{test}"
      for file in ("test_files_0_2.py", "test_upgrades.py")
      for test in ("test_an_agent_says_what_it_said", "test_an_agent_is_fitted_and_adapted_as_it_was",
                   "test_an_adaptation_stands_where_it_was_left",
                   "test_an_adaptation_goes_on_to_the_same_end")),
    "tests/upgrades/test_files_0_2.py::test_an_agent_that_was_put_right_is_taught_on",
)  # fmt: skip
"""Whether what a release wrote is gone on with to the same bits: random numbers included."""
WHOLE = ("tests/methods/test_cual_plus.py", "tests/methods/test_readings.py", "tests/test_odd_values.py")
"""Whole adaptations, which show what parts make together."""


@dataclass(frozen=True)
class Room:
    """A room: its sources, below `src/cual`, and its tests.

    `traced` is false where coverage cannot see all lines that a test runs: where it sees none, all tests of the
    room are run. `gpu` says whether its tests use a GPU where there is one; the others' give the same with and
    without. Sources that are `elsewhere` have their tests in another room.
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    traced: bool = True
    gpu: bool = False
    elsewhere: tuple[str, ...] = ()

    def files(self, cual: Path) -> list[Path]:
        """The modules of the room below a folder `cual`."""
        found = (
            sorted(path.rglob("*.py")) if path.is_dir() else [path] for path in map(cual.joinpath, self.sources)
        )
        return [
            file for files in found for file in files if file.relative_to(cual).as_posix() not in self.elsewhere
        ]

    def test_files(self) -> dict[str, list[str]]:
        """The files of the room's tests, each with what pytest is given of it: itself, or some of its tests."""
        files: dict[str, list[str]] = {}
        for name in self.tests:
            path = ROOT / name.split("::")[0]
            for file in sorted(path.rglob("test_*.py")) if path.is_dir() else [path]:
                plain = file.relative_to(ROOT).as_posix()
                files.setdefault(plain, []).append(name if "::" in name else plain)
        return files


ROOMS = {
    room.name: room
    for room in (
        Room(
            "uncertainty",
            ("uncertainty",),
            ("tests/uncertainty", DRAWN, *RELEASES, OPTIONS),
            elsewhere=(STACKED,),
        ),
        Room("acquisition", ("acquisition",), ("tests/acquisition", OPTIONS)),
        Room("heads", ("heads",), ("tests/heads", DRAWN, *RELEASES, OPTIONS)),
        Room(
            "learners",
            ("learners",),
            ("tests/learners", DRAWN, *RELEASES, *WHOLE, OPTIONS),
            elsewhere=(ALIKE,),
        ),
        Room(
            "methods",
            ("methods",),
            ("tests/methods/test_compositions.py", "tests/methods/test_options.py",
             "tests/methods/test_contract.py", "tests/methods/test_incdfm.py", OPTIONS),
        ),
        # Triton's interpreter runs a copy of a kernel, made from its text: coverage does not see that
        Room("kernels", ("kernels", STACKED, ALIKE), ("tests/kernels",), traced=False, gpu=True),
        Room("loop", ("loop",), ("tests/loop", "tests/learners/test_drift.py", *RELEASES, *WHOLE)),
        Room(
            "agent",
            ("agent.py", "judging.py", "held_out.py", "learned.py", "pseudo_labels.py", "replay.py"),
            ("tests/test_agent.py", "tests/test_held_out.py", "tests/test_learned.py", "tests/test_replay.py",
             "tests/acquisition/test_formulas.py", "tests/checks/test_belief.py", "tests/test_bad_input.py",
             "tests/repair/test_forget.py", "tests/repair/test_teach.py", "tests/learners/test_drift.py",
             "tests/learners/test_detectors.py",
             "tests/learners/test_lessons.py", DRAWN, *RELEASES, *WHOLE, OPTIONS),
        ),
        Room(
            "options",
            ("options.py", "registry.py", "seeds.py"),
            ("tests/test_options.py", "tests/methods/test_options.py", OPTIONS),
        ),
    )
}  # fmt: skip

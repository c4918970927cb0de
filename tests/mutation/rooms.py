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


@dataclass(frozen=True)
class Room:
    """A room: its sources, below `src/cual`, and its tests.

    `traced` is false where coverage cannot see which lines a test runs: all tests of the room are run then.
    Sources that are `elsewhere` have their tests in another room.
    """

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    traced: bool = True
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
        Room("uncertainty", ("uncertainty",), ("tests/uncertainty", DRAWN, OPTIONS), elsewhere=(STACKED,)),
        Room("acquisition", ("acquisition",), ("tests/acquisition", OPTIONS)),
        Room("heads", ("heads",), ("tests/heads", DRAWN, OPTIONS)),
        Room("learners", ("learners",), ("tests/learners", DRAWN, OPTIONS), elsewhere=(ALIKE,)),
        Room(
            "methods",
            ("methods",),
            ("tests/methods/test_compositions.py", "tests/methods/test_options.py",
             "tests/methods/test_contract.py", "tests/methods/test_incdfm.py", OPTIONS),
        ),
        # Triton's interpreter runs a copy of a kernel, made from its text: coverage does not see that
        Room("kernels", ("kernels", STACKED, ALIKE), ("tests/kernels",), traced=False),
        Room("loop", ("loop",), ("tests/loop",)),
        Room(
            "agent",
            ("agent.py", "held_out.py", "learned.py", "pseudo_labels.py", "replay.py"),
            ("tests/test_agent.py", "tests/test_held_out.py", "tests/test_learned.py", "tests/test_replay.py",
             "tests/acquisition/test_formulas.py", "tests/checks/test_belief.py", "tests/test_bad_input.py",
             "tests/repair/test_forget.py", "tests/repair/test_teach.py", "tests/learners/test_drift.py",
             DRAWN, OPTIONS),
        ),
        Room(
            "options",
            ("options.py", "registry.py", "seeds.py"),
            ("tests/test_options.py", "tests/methods/test_options.py", OPTIONS),
        ),
    )
}  # fmt: skip

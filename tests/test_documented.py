"""Every public thing is named by a page that people write, and a fifth has an example.."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import cual
import cual.client
import cual.errors
from cual.cli import app
from public_things import (
    ROOT,
    Section,
    Thing,
    commands,
    errors,
    examples,
    extras,
    members,
    metrics,
    missing,
    modules,
    names,
    parts,
    public_names,
    routes,
    sections,
    variables,
    written_sections,
)

WRITTEN = written_sections()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The web application of an empty workspace."""
    pytest.importorskip("nicegui", reason="cual[serve] is not installed")
    from cual.serve.rules.workspace import Workspace
    from cual.serve.web.app import create_app

    workspace = Workspace.open(tmp_path_factory.mktemp("documented") / "workspace")
    yield create_app(workspace)
    workspace.close()


# -- pages name everything -------------------------------------------------------------------------------------


def check(things: Iterator[Thing]) -> None:
    found = list(things)
    assert found
    unnamed = missing(found, WRITTEN)
    assert not unnamed, (
        f"no page names (docs/commands.md, python.md, http.md, …): {', '.join(map(str, unnamed))}"
    )


def test_every_command_and_option_is_named() -> None:
    check(commands(typer.main.get_command(app)))


@pytest.mark.more
def test_every_route_is_named(service: Any) -> None:
    check(routes(service.openapi()))


@pytest.mark.more
def test_every_metric_is_named(service: Any) -> None:
    check(metrics(service.state.metrics.text().decode()))


def test_every_registered_part_is_named() -> None:
    check(parts(modules(having="Registry")))


def test_every_error_is_named() -> None:
    check(errors(cual.errors))


def test_every_variable_of_the_environment_is_named() -> None:
    check(variables([*modules(having="CUAL_"), *modules(having="envvar")]))


def test_every_extra_is_named() -> None:
    check(extras(ROOT / "pyproject.toml"))


@pytest.mark.parametrize("module", [cual, cual.client], ids=lambda module: module.__name__)
def test_every_public_name_and_member_is_named(module: Any) -> None:
    check(public_names(module))


# -- and nothing that is not there -----------------------------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_page_of_commands_names_no_other_option() -> None:
    known = {t.name for t in commands(typer.main.get_command(app)) if t.kind == "option"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", page("commands.md")))
    assert named - known - {"--help", "--without-encoder"} == set()


def test_the_page_of_commands_names_no_other_command() -> None:
    known = {t.name for t in commands(typer.main.get_command(app)) if t.kind == "command"}
    named = set(re.findall(r"`(cual [a-z][a-z -]*[a-z])", page("commands.md")))
    assert {name for name in named if name.split(" --")[0] not in known} == set()


@pytest.mark.more
def test_the_page_of_routes_names_no_other(service: Any) -> None:
    known = {thing.name for thing in routes(service.openapi())} | {"GET /api/openapi.json"}
    assert set(re.findall(r"`((?:GET|PUT|POST|PATCH|DELETE) [^`?]+)", page("http.md"))) - known == set()


def test_the_page_of_errors_names_no_other() -> None:
    known = {thing.name for thing in errors(cual.errors)}
    rows = re.findall(r"^\| (`.*?) \|", page("errors.md"), flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} <= known


def test_the_page_of_errors_says_the_status_that_the_service_answers_with() -> None:
    pytest.importorskip("nicegui", reason="cual[serve] is not installed")
    from cual.serve.web.api.common import status_of

    rows = re.findall(r"^\| (`.*?) \|.*\| (\d+) \|$", page("errors.md"), flags=re.MULTILINE)
    said = {name: int(status) for row, status in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(said) > 20
    assert said == {name: status_of(getattr(cual.errors, name)("")) for name in said}


# -- examples that run ----------------------------------------------------------------------------------------


@pytest.mark.more
def test_a_fifth_of_what_is_public_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Of functions by their own docstrings; of all, by those or by that of the class. Doctest runs them."""
    found = list(examples(modules()))
    functions = [thing.own for thing in found if thing.function]
    things = [thing.own or thing.used for thing in found]
    shares = [sum(shown) / len(shown) for shown in (functions, things)]
    with capsys.disabled():
        for what, shown, share in zip(("functions", "things"), (functions, things), shares, strict=True):
            print(f"\n{sum(shown)} of {len(shown)} public {what} have an example: {share:.1%}", end="")
    assert min(shares) >= 0.2


def test_what_counts_as_an_example(tmp_path: Path) -> None:
    folder = tmp_path / "toys"
    folder.mkdir()
    for name in ("balls.py", "_hidden.py", "0001_old.py"):
        (folder / name).write_text(BALLS)
    assert list(examples(modules(folder))) == [
        ("toys.balls.thrown", True, True, False),
        ("toys.balls.caught", True, False, False),
        ("toys.balls.Ball", False, True, False),
        ("toys.balls.Ball.bounce", False, False, True),
        ("toys.balls.Ball.roll", False, False, False),
    ]


BALLS = '''
def thrown():
    """
    >>> 1 + 1
    2
    """

def caught():
    """No example: >>> stands in the middle."""
    def inner(): ...

def _hidden(): ...

class Ball:
    """
    >>> Ball().bounce()
    """
    def bounce(self): ...
    def roll(self): ...
    def _spin(self): ...

class Throws(Protocol):
    def throw(self): ...
'''


# -- the check can fail ----------------------------------------------------------------------------------------


def test_an_undocumented_command_and_option_are_found() -> None:
    small = typer.Typer()

    @small.callback()
    def before() -> None:
        pass

    @small.command()
    def juggle(loud: bool = False, seed: int = 0) -> None:
        pass

    things = list(commands(typer.main.get_command(small)))
    assert Thing("command", "cual juggle") in missing(things, WRITTEN)
    half = [Section("Juggling", "`cual juggle --seed 3`")]
    wanted = [Thing("command", "cual juggle"), Thing("option", "--loud", "cual juggle")]
    assert missing([*wanted, Thing("option", "--seed", "cual juggle")], half) == wanted[1:]


def test_an_option_is_named_where_its_command_is() -> None:
    there = Section("", "`cual fit --seed 3`")
    elsewhere = Section("", "`cual bench run --first 2`")
    assert missing([Thing("option", "--first", "cual fit")], [there, elsewhere]) != []
    assert missing([Thing("option", "--first", "cual bench run")], [there, elsewhere]) == []


def test_an_undocumented_route_is_found() -> None:
    things = list(routes({"paths": {"/api/agents": {"get": {}}, "/api/agents/{id}/juggle": {"post": {}}}}))
    assert missing(things, WRITTEN) == [Thing("route", "POST /api/agents/{id}/juggle")]


def test_a_route_is_not_named_by_a_longer_one() -> None:
    longer = [Section("", "`GET /api/agents/{id}`, `GET /api/audit.csv`, `GET /api/agents/{id}/keys`")]
    things = [Thing("route", f"GET {path}") for path in ("/api/agents", "/api/audit", "/api/agents/{id}")]
    assert missing(things, longer) == things[:2]


def test_an_undocumented_metric_is_found() -> None:
    told = "# TYPE cual_answers_total counter\n# TYPE cual_answers_created gauge\n# TYPE cual_juggled gauge\n"
    assert missing(metrics(told), WRITTEN) == [Thing("metric", "cual_juggled")]


def test_an_undocumented_part_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from cual.acquisition import acquisitions

    class Juggler:
        __module__ = "cual.acquisition.juggler"

    monkeypatch.setitem(acquisitions._members, "juggler", Juggler)  # pyright: ignore
    assert missing(parts(modules(having="Registry")), WRITTEN) == [Thing("acquisition strategy", "`juggler`")]


def test_an_axis_that_is_new_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "balls.py").write_text(
        'from cual.registry import Registry\nballs = Registry[int]("ball")\nballs.add("red ball")(3)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = list(parts(((name.removeprefix(f"{tmp_path.name}."), tree) for name, tree in modules(tmp_path))))
    assert found == []  # what others register is theirs to document
    monkeypatch.setattr("public_things._home", lambda member: "cual.balls")
    things = parts((name.removeprefix(f"{tmp_path.name}."), tree) for name, tree in modules(tmp_path))
    assert missing(things, WRITTEN) == [Thing("ball", "`red ball`")]


def test_an_undocumented_error_is_found() -> None:
    class Dropped(Exception):
        __module__ = "juggling"

    module = SimpleNamespace(__name__="juggling", Dropped=Dropped, ValueError=ValueError)
    assert missing(errors(module), WRITTEN) == [Thing("error", "Dropped")]


def test_an_undocumented_variable_is_found(tmp_path: Path) -> None:
    (tmp_path / "balls.py").write_text('import os\nballs = os.environ.get("CUAL_" "BALLS", "CUAL_TOKEN")\n')
    assert missing(variables(modules(tmp_path)), WRITTEN) == [Thing("variable", "CUAL_BALLS")]
    (tmp_path / "balls.py").write_text('option = Option(envvar="JUGGLER")')
    assert missing(variables(modules(tmp_path)), WRITTEN) == [Thing("variable", "JUGGLER")]


def test_an_undocumented_extra_is_found(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text("[project.optional-dependencies]\nserve = []\njuggling = []\n")
    assert missing(extras(project), WRITTEN) == [Thing("extra", "cual[juggling]")]
    assert names("pip install 'cual[serve,juggling]'", "cual[juggling]")


def test_an_undocumented_name_and_member_are_found() -> None:
    class Thrower(cual.Pool):
        height: int

        def throw(self) -> None: ...

    assert {thing.name for thing in members(Thrower)} >= {"height", "throw", "take"}
    module = SimpleNamespace(__all__=["Thrower", "__version__"], Thrower=Thrower)
    assert Thing("name", "Thrower") in missing(public_names(module), WRITTEN)
    half = [Section("", "A `Thrower` can `throw`. "), Section("", "`height` of something else")]
    things = [Thing("member", "throw", "Thrower"), Thing("member", "height", "Thrower")]
    assert missing(things, half) == things[1:]


def test_only_code_names_things() -> None:
    assert missing([Thing("error", "Conflict")], [Section("", "Conflict is bad")]) != []
    assert missing([Thing("error", "Conflict")], [Section("", "`Conflict` is bad")]) == []
    assert not names("--ids", "--id")
    assert names("cual fit --id x", "--id")


def test_a_line_of_a_fenced_block_is_no_heading() -> None:
    found = sections("# A\n```sh\n# no heading\ncual fit\n```\n## B\ntext")
    assert [section.title for section in found] == ["", "A", "B"]
    assert names(found[1].code, "cual fit")

"""The reference leaves nothing out: commands, options, routes, errors, metrics, parts and public names."""

import importlib
from typing import Any

import pytest
from handbook import api, commands, docstrings, errors, metrics, navigation, parts, routes

import cual
from cual.methods import methods


def test_every_command_and_option_is_there() -> None:
    page = commands.page()
    found = dict(commands.commands())
    assert {"cual fit", "cual bench run", "cual label-studio attach"} <= found.keys()
    for name, command in found.items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert section, f"{name} has no section"
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden and parameter.name != "help":
                assert all(f"`{option}`" in section for option in parameter.opts), parameter.name


def test_marks_of_the_terminal_are_not_shown() -> None:
    page = commands.page()
    assert "[bold]" not in page
    assert "[cyan]" not in page


def test_every_error_is_there_with_its_status() -> None:
    page = errors.page()
    names = {name for name in vars(cual.errors) if isinstance(getattr(cual.errors, name), type)}
    assert len(names) > 30
    assert {error.__name__ for error in errors.errors()} == names
    assert all(f"\n| `{name}` |" in page for name in names)
    assert "| `NotFound` | `CualError`, `LookupError` | 404 |" in page


def test_every_part_is_there_with_its_options() -> None:
    page = parts.page()
    assert all(f"\n### {name}\n" in page for name in methods)
    for registry in parts.registries().values():
        assert all(f"\n### `{name}`\n" in page for name in registry)
    assert "| `alpha` | `0.2` |" in page


@pytest.mark.more
def test_every_route_is_there() -> None:
    page = routes.page()
    found = list(routes.routes())
    assert len(found) > 90
    for method, path, _ in found:
        assert f"\n### `{method} {path}`\n" in page


@pytest.mark.more
def test_every_metric_is_there() -> None:
    page = metrics.page()
    assert len(metrics.metrics()) > 25
    assert all(f"`{name}`" in page for name, _, _ in metrics.metrics())
    assert "| `cual_requests_total` | counter | Requests answered. |" in page
    assert "_created" not in page


def test_every_public_name_has_a_page() -> None:
    pages = api.pages()
    index = pages["reference/api/index.md"]
    assert all(f"`cual.{name}`" in index for name in cual.__all__ if name != "__version__")
    for name in api.modules():
        assert f"::: {name}\n" in pages[f"reference/api/{name}.md"]
        assert importlib.util.find_spec(name) is not None


def test_every_bridge_has_a_page() -> None:
    assert {"cual.bridges.sklearn", "cual.bridges.label_studio"} <= api.modules().keys()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Adds.\n\n>>> 1 + 1\n2", "Adds.\n\nExamples\n--------\n>>> 1 + 1\n2"),
        (
            "F.\n\nParameters\n----------\nx\n    A number.\n\nThen more.",
            "F.\n\nParameters\n----------\nx\n    A number.\n\nNotes\n-----\nThen more.",
        ),
        ("F.\n\nExamples\n--------\n>>> 1\n1\n\n>>> 2\n2", "F.\n\nExamples\n--------\n>>> 1\n1\n\n>>> 2\n2"),
        ("Two lines.\n\nNo section.", "Two lines.\n\nNo section."),
    ],
)
def test_docstrings_get_their_headings(before: str, after: str) -> None:
    assert docstrings.sectioned(before) == after


def test_a_folder_in_the_navigation_is_its_pages(tmp_path: Any) -> None:
    (tmp_path / "tutorials").mkdir()
    for name in ("c", "b", "a"):
        (tmp_path / "tutorials" / f"{name}.md").touch()
    (tmp_path / "tutorials" / "index.md").write_text("[first](b.md), then [another](a.md#part)")
    made = ["made/z.md", "made/index.md", "made/y.md"]
    whole = navigation.expanded([{"T": "tutorials/"}, {"M": [{"N": "made/"}]}, {"E": "empty/"}], tmp_path, made)
    assert whole == [
        {"T": [f"tutorials/{name}.md" for name in ("index", "b", "a", "c")]},
        {"M": [{"N": ["made/index.md", "made/z.md", "made/y.md"]}]},
    ]


@pytest.fixture(autouse=True)
def _packages() -> None:
    pytest.importorskip("griffe", reason="the extra docs is not installed")


def test_examples_of_routes_are_code() -> None:
    described = {"description": "Says <so>.\n\n>>> a[0][40]\n1"}
    assert routes._prose(described) == "Says &lt;so>.\n\n```pycon\n>>> a[0][40]\n1\n```\n"

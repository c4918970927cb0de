"""Classes renamed, merged and removed in the service: a version each, for administrators, written down.

At once, in closed form; where the head has to be trained again a worker does it: `test_repair_jobs`.
"""

from collections.abc import Callable

import pytest

from cual.errors import BadLabels, BadOption, Conflict, NotAllowed, SamplesMissing, UnknownClass
from cual.serve.rules.records import OPERATOR, AgentRecord, Person, Role
from cual.serve.rules.workspace import Workspace
from serving import Service
from visiting import site
from worlds import World


@pytest.fixture
def plus(service: Service, world: World) -> int:
    """An agent with a closed-form head, that knows four classes."""
    first = world.agent(method="cual-plus", buffer=500)
    agent = first.teach(world.pool, list(world.truth.values()))
    return service.workspace.add_agent("plus", agent, OPERATOR).id


def test_a_repair_is_a_version_with_its_reason(service: Service, plus: int) -> None:
    workspace = service.workspace
    record = workspace.rename_class(plus, "owl", " barn owl ", service.ann, "there are others")
    assert record.version == 1
    assert "barn owl" in record.classes
    workspace.merge_classes(plus, "cat", ["dog"], service.ann)
    last = workspace.remove_class(plus, "barn owl", service.ann)
    assert isinstance(last, AgentRecord)
    assert last.classes == ["cat", "Füchsin mit Schal"]
    versions = workspace.versions(plus)
    assert [version.parent for version in versions] == [None, 0, 1, 2]
    assert [version.change and version.change["change"] for version in versions] == [
        None,
        "renamed",
        "merged",
        "removed",
    ]
    assert versions[1].change == {
        "change": "renamed",
        "class": "owl",
        "to": "barn owl",
        "how": "exact",
        "person": "ann",
        "why": "there are others",
    }
    assert workspace.load_agent(plus, 3).history[-1]["class"] == "barn owl"
    rows = [row for row in workspace.audit(OPERATOR) if row.thing == plus]
    assert [row.action for row in rows[:3]] == ["remove class", "merge classes", "rename class"]
    assert rows[2].details["version_made"] == 1
    assert rows[2].details["why"] == "there are others"
    assert workspace.roll_back(plus, 0, service.ann).classes == ["cat", "dog", "Füchsin mit Schal", "owl"]


def test_what_people_are_told_of_a_class_goes_with_its_name(service: Service, plus: int) -> None:
    workspace = service.workspace
    workspace.describe_class(plus, "owl", service.ann, description="flies at night")
    workspace.give_key(plus, service.bob, "7", "owl")
    workspace.rename_class(plus, "owl", "barn owl", service.ann)
    (record,) = workspace.classes(plus, ["barn owl"])
    assert record.description == "flies at night"
    assert workspace.kept_keys(plus, service.bob)["7"] == "barn owl"


@pytest.mark.parametrize(
    "change",
    [
        lambda w, agent, p: w.rename_class(agent, "cat", "tomcat", p),
        lambda w, agent, p: w.merge_classes(agent, "cat", ["dog"], p),
        lambda w, agent, p: w.remove_class(agent, "cat", p),
    ],
)
def test_only_administrators_and_only_while_nothing_is_under_way(
    service: Service, plus: int, change: Callable[[Workspace, int, Person], object]
) -> None:
    workspace = service.workspace
    for person in (service.bob, service.eve):
        with pytest.raises(NotAllowed):
            change(workspace, plus, person)
    task = service.start()
    with pytest.raises(Conflict, match=f"adaptation {task} is under way with this agent"):
        change(workspace, service.agent, service.ann)
    workspace.drop(task, service.ann)
    assert len(workspace.versions(plus)) == len(workspace.versions(service.agent)) == 1


def test_what_cannot_be_is_refused_and_leaves_nothing(service: Service, plus: int, world: World) -> None:
    workspace = service.workspace
    with pytest.raises(UnknownClass, match="did you mean 'owl'"):
        workspace.remove_class(plus, "owls", service.ann)
    with pytest.raises(BadLabels, match="control characters"):
        workspace.rename_class(plus, "owl", "o\x00wl", service.ann)
    with pytest.raises(BadLabels, match="already"):
        workspace.rename_class(plus, "owl", "cat", service.ann)
    with pytest.raises(BadOption, match="longer than 1000"):
        workspace.rename_class(plus, "owl", "barn owl", service.ann, "x" * 1001)
    small = world.agent(method="cual-plus", buffer=4)
    agent = workspace.add_agent("small", small, OPERATOR).id
    with pytest.raises(SamplesMissing):
        workspace.remove_class(agent, "cat", service.ann)
    assert len(workspace.versions(agent)) == len(workspace.versions(plus)) == 1
    assert list(workspace.home.folder.glob("agents/.*.agent")) == []
    done = workspace.remove_class(agent, "cat", service.ann, leave_spread=True)
    assert isinstance(done, AgentRecord)
    assert done.classes == ["dog"]
    assert workspace.repairs(agent) == workspace.repairs(plus) == []


def test_over_http(service: Service, plus: int) -> None:
    with site(service) as here:
        admin, annotator = here.bearer(), here.bearer(Role.annotator)
        at = f"/api/agents/{plus}/classes"
        renamed = admin.post(f"{at}/rename", json={"label": "owl", "to": "barn owl", "why": "others"})
        assert renamed.status_code == 200, renamed.text
        assert "barn owl" in renamed.json()["classes"]
        merging = {"into": "cat", "others": ["dog"]}
        assert annotator.post(f"{at}/merge", json=merging).status_code == 403
        merged = admin.post(f"{at}/merge", json=merging)
        assert (merged.status_code, len(merged.json()["classes"])) == (200, 3)
        assert admin.post(f"{at}/remove", json={"label": "barn owl"}).json()["version"] == 3
        assert admin.post(f"{at}/remove", json={"label": "barn owl"}).status_code == 404
        versions = admin.get(f"/api/agents/{plus}/versions").json()
        assert versions[1]["change"]["to"] == "barn owl"

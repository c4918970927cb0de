"""Schemathesis over the API's own description: whatever fits it, or hardly fits it, no answer is a 5xx.

Few examples here, and always the same; many in the slow test.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup

from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from serving import make_service
from visiting import URL, Site, site
from worlds import make_world

pytestmark = pytest.mark.more

load_all_checks()
WANTED = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
]
QUIET = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site with something of everything: versions, a pool, adaptations in several states."""
    folder = tmp_path_factory.mktemp("openapi")
    (folder / "data").mkdir()
    workspace = Workspace.open(folder / "workspace", roots=[folder / "data"])
    service = make_service(workspace, make_world())
    done = service.start(12)
    service.answer_all(done)
    service.finish(done)
    workspace.lend(service.start(8), service.bob, 3)
    service.answer_all(service.start(8))
    with site(service) as held:
        yield held
    workspace.close()


def problems(here: Site, examples: int, repeatable: bool, role: Role | None = Role.admin) -> list[str]:
    """What is wrong with the answers to generated requests, route by route."""
    modes = list(GenerationMode) if role is Role.admin else [GenerationMode.POSITIVE]
    schema = schemathesis.openapi.from_dict(here.app.openapi())
    schema.app = here.app
    schema.config.update(base_url=URL)
    found: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in modes:
            try:
                cases = operation.as_strategy(generation_mode=mode)
                once = settings(max_examples=examples, derandomize=repeatable, **QUIET)
                once(given(cases)(lambda case: check(case, here, role)))()
            except Unsatisfiable:
                continue  # there is no wrong way to ask for something without parameters
            except (Exception, FailureGroup) as error:
                found.append(f"{operation.label}, {mode.value}: {error}")
    return found


def check(case: Any, here: Site, role: Role | None) -> None:
    """Send a request as somebody of a role, or nobody; half of them about something that is there."""
    headers: dict[str, str] = {}
    if role is not None:
        me = here.people[role].id
        here.accounts.change_person(me, role, active=True, by=OPERATOR)
        headers = {"Authorization": f"Bearer {here.accounts.new_token(me, 'api', by=OPERATOR)[1]}"}
    for name, most in (("id", 3), ("row", 70), ("token", 5)):
        value = case.path_parameters.get(name)
        if isinstance(value, int) and value % 2:
            case.path_parameters[name] = value % most + 1
    # That it is not ready is an answer, too: Schemathesis starts and ends the app around its requests.
    wanted = WANTED[1:] if case.path == "/health" else WANTED
    checks = [CHECKS.get_one(name) for name in wanted]
    case.call_and_validate(headers=headers, checks=checks)


def test_few_requests(here: Site) -> None:
    assert problems(here, 3, repeatable=True) == []


OTHERS = [Role.annotator, Role.reader, None]


@pytest.mark.attacks
@pytest.mark.parametrize("role", OTHERS)
def test_few_requests_of_others(here: Site, role: Role | None) -> None:
    assert problems(here, 1, repeatable=True, role=role) == []


@pytest.mark.slow
@pytest.mark.parametrize("role", [Role.admin, *OTHERS])
def test_many_requests(here: Site, role: Role | None) -> None:
    assert problems(here, 60, repeatable=False, role=role) == []

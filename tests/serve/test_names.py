"""Names that people take for one: spellings that cannot be seen are one class, and others are asked about."""

import unicodedata
from typing import Any

import numpy as np
import pytest

from cual.agent import Agent
from cual.data.labels import ClassNames, alike, likeness, read_label, tidy
from cual.errors import BadLabels
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.checks import check_label
from cual.serve.rules.records import OPERATOR, Role
from serving import Service
from visiting import site

UNSEEN = [
    "c\u200bat",  # zero-width space
    "c\u200cat",
    "c\u200dat",
    "\ufeffcat",
    "cat\u200e",  # marks of direction
    "cat\u200f",
    "\u061ccat",
    "c\u00adat",  # soft hyphen
    "c\u2060at",
    "cat\ufe0f",
    " cat\u00a0",
    "c\u034fat",
    "\u3164cat",
]
ALIKE = ["Cat", "CAT", "ｃａｔ", "𝐜𝐚𝐭", "caT\u200b"]
CAFE = "café"


@pytest.mark.parametrize("spelling", UNSEEN)
def test_spellings_that_cannot_be_seen_are_one_class(spelling: str) -> None:
    names = ClassNames(("cat", "dog"))
    assert check_label(spelling, names) == "cat"
    assert read_label(spelling, names) == "cat"
    assert tidy(spelling) == "cat"


@pytest.mark.parametrize("spelling", ALIKE)
def test_spellings_that_look_alike_are_asked_about(spelling: str) -> None:
    names = ClassNames(("cat", "dog"))
    with pytest.raises(BadLabels, match="did you mean 'cat'"):
        check_label(spelling, names)
    assert check_label(spelling, names, meant=True) == tidy(spelling)


@pytest.mark.parametrize("turning", ["\u202ecat", "cat\u2066", "a\nb", "\u200b", "\u3164"])
def test_what_turns_text_or_is_nothing_is_refused(turning: str) -> None:
    with pytest.raises(BadLabels):
        check_label(turning, ClassNames(("cat",)), meant=True)


@pytest.mark.parametrize("name", ["می‌خواهم", "👩‍🔬", "क्‍ष", "❤️", "Ærø", "owl's nest", "C++", "日本"])
def test_names_that_need_joiners_keep_them(name: str) -> None:
    assert check_label(name, ClassNames(("cat",))) == unicodedata.normalize("NFC", name)


def test_classes_of_an_earlier_release_keep_their_names() -> None:
    """Names that today's rule would have tidied up are known as they are, also when typed otherwise."""
    old = ClassNames((unicodedata.normalize("NFD", CAFE), "d\u200bog", "Cat", "cat"))
    for typed in (unicodedata.normalize("NFD", CAFE), CAFE):
        assert check_label(typed, old) == read_label(typed, old) == old.names[0]
    assert check_label("dog", old) == check_label("d\u200bog", old) == "d\u200bog"
    assert [check_label(name, old) for name in ("Cat", "cat")] == ["Cat", "cat"]
    assert alike("CAT", old) == "Cat"
    assert likeness("ﬁsh") == likeness("FISH")


def test_answers_make_one_class_of_eleven_spellings(service: Service) -> None:
    adaptation = service.start(budget=20)
    with site(service) as held:
        client = held.bearer(Role.annotator)
        url = f"/api/adaptations/{adaptation}"
        questions = client.post(f"{url}/lend", json={"n": 20}).json()
        ids = [str(question["id"]) for question in questions]
        assert len(ids) > 3

        def answer(**body: Any) -> Any:
            return client.post(f"{url}/answers", json=body)

        spellings = ["lynx", "ly\u200bnx", "lynx\u200e", "  lynx", "ly\u00adnx"]
        for number, spelling in zip(ids, spellings, strict=False):
            assert answer(answers={number: spelling}).status_code == 200
        refused = answer(answers={ids[0]: "Lynx"})
        assert (refused.status_code, "did you mean 'lynx'?" in refused.json()["detail"]) == (422, True)
        both = answer(answers={ids[0]: "Puma", ids[1]: "puma"})
        assert (both.status_code, "did you mean 'Puma'?" in both.json()["detail"]) == (422, True)
        known = service.workspace.agent(service.agent).classes[0]
        assert answer(answers={ids[0]: str(known).upper()}).status_code == 422
        answers = {
            answer["label"]
            for question in service.workspace.questions(adaptation)
            for answer in [vars(given) for given in question.answers]
        }
        assert answers == {"lynx"}
        assert answer(answers={ids[0]: "Lynx"}, meant=True).status_code == 200
        assert answer(answers={ids[0]: "Lynx"}).status_code == 200  # now there is such a class
        settled = {"question": int(ids[1]), "label": "LYNX"}
        assert client.post(f"{url}/settle", json=settled).status_code in (403, 422)


def test_a_class_is_renamed_by_case_but_not_into_another(service: Service) -> None:
    w = service.workspace
    first, second = (str(name) for name in w.agent(service.agent).classes[:2])
    with pytest.raises(BadLabels, match="did you mean"):
        w.rename_class(service.agent, first, second.upper(), OPERATOR)
    assert first.upper() in w.rename_class(service.agent, first, first.upper(), OPERATOR).classes
    assert (
        second.title()
        in w.rename_class(service.agent, first.upper(), second.title(), OPERATOR, meant=True).classes
    )


def test_an_agent_of_data_has_tidy_names(service: Service) -> None:
    w = service.workspace
    file = w.home.roots[0] / "labelled.npz"
    nfd = unicodedata.normalize("NFD", CAFE)
    X = np.random.default_rng(0).normal(size=(40, 4)) + np.repeat([[0], [9]], 20, axis=0)
    np.savez(file, X=X, y=np.array([CAFE, nfd] * 10 + ["bar", "bar\u200b"] * 10))
    made = w.make_agent("sent", file, OPERATOR)
    work_until_idle(w)
    assert list(w.agent(made.id).classes) == ["bar", CAFE]


def test_an_agent_with_old_names_is_loaded_and_predicts(service: Service) -> None:
    X = np.random.default_rng(0).normal(size=(40, 4)) + np.repeat([[0], [9]], 20, axis=0)
    agent = Agent.fit(X, ["cat"] * 20 + ["c\u200bat"] * 20)
    added = service.workspace.add_agent("old", agent, OPERATOR)
    assert list(added.classes) == ["cat", "c\u200bat"]
    assert set(service.workspace.load_agent(added.id, None).predict(X)) == {"cat", "c\u200bat"}

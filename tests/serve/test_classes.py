"""Classes: what people are told of them, who may say it, which key each has for whom, and how one is found."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual.errors import BadOption, NotAllowed, NotFound
from cual.serve.rules.class_keys import KEYS, assigned, offered
from cual.serve.rules.finding import find
from many_classes import names
from serving import Service

EVERY = names(150)


# -- what is told of a class -----------------------------------------------------------------------------------


def test_a_class_has_a_description_a_colour_and_examples(service: Service) -> None:
    w = service.workspace
    plain = {record.label: record for record in w.classes(service.agent)}
    assert plain["cat"].description == ""
    assert plain["cat"].examples == []
    record = w.describe_class(
        service.agent,
        "cat",
        service.ann,
        description=" Purrs.\r\nNot a lynx. ",
        colour="#AA00ff",
        examples=[(service.pool, 3)],
    )
    assert (record.description, record.colour) == ("Purrs.\nNot a lynx.", "#aa00ff")
    assert [(e.pool, e.row, e.chosen) for e in record.examples] == [(service.pool, 3, True)]
    # what is not named stays; an empty colour goes back to the usual one
    record = w.describe_class(service.agent, "cat", service.ann, colour="")
    assert (record.description, record.colour) == ("Purrs.\nNot a lynx.", plain["cat"].colour)
    assert len({record.colour for record in plain.values()}) == len(plain)


def test_answers_are_examples_the_latest_first_and_new_classes_are_there_at_once(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    first, second, *_ = w.lend(adaptation, service.bob, 3)
    for question in (first, second):
        w.answer(adaptation, service.bob, {question.id: "barn owl"})
    owl = {record.label: record for record in w.classes(service.agent)}["barn owl"]
    assert [(e.row, e.chosen) for e in owl.examples] == [(second.row, False), (first.row, False)]
    assert w.recent_classes(service.agent, service.bob) == ["barn owl"]
    w.undo(adaptation, service.bob)
    w.undo(adaptation, service.bob)
    assert "barn owl" not in {record.label for record in w.classes(service.agent)}


def test_only_administrators_describe_and_nothing_hides_in_a_text(service: Service) -> None:
    w = service.workspace
    for person in (service.bob, service.eve):
        with pytest.raises(NotAllowed):
            w.describe_class(service.agent, "cat", person, description="x")
        with pytest.raises(NotAllowed):
            w.set_guidelines(service.pool, "x", person)
    for wrong in ({"description": "a\x00b"}, {"description": "turned\u202e"}, {"description": "x" * 1001}):
        with pytest.raises(BadOption):
            w.describe_class(service.agent, "cat", service.ann, **wrong)
    with pytest.raises(BadOption):
        w.describe_class(service.agent, "cat", service.ann, colour="red; background: url(x)")
    with pytest.raises(NotFound):
        w.describe_class(service.agent, "unheard of", service.ann, description="x")
    with pytest.raises(NotFound):
        w.describe_class(service.agent, "cat", service.ann, examples=[(service.pool, 10**6)])
    with pytest.raises(BadOption):
        w.set_guidelines(service.pool, "x" * 10_001, service.ann)
    assert (
        w.set_guidelines(service.pool, "Count\n\n<b>birds</b>", service.ann).guidelines
        == "Count\n\n<b>birds</b>"
    )
    assert w.pool(service.pool).guidelines == "Count\n\n<b>birds</b>"
    assert w.set_guidelines(service.pool, " ", service.ann).guidelines == ""


# -- keys ------------------------------------------------------------------------------------------------------


def test_a_class_keeps_its_key_for_a_person_for_good(service: Service) -> None:
    w, labels = service.workspace, ["cat", "dog", *EVERY]
    before = w.class_keys(service.agent, service.ann, labels, likely=["dog", "zebra"])
    assert before == {"1": "dog", "2": "zebra"}
    # zebra is no class of the agent: once it is not offered, its key is free; that of the dog stays
    assert w.class_keys(service.agent, service.ann, ["cat", "dog"]) == {"1": "dog", "2": "cat"}
    assert w.class_keys(service.agent, service.bob, ["cat", "dog"]) == {"1": "cat", "2": "dog"}
    w.give_key(service.agent, service.ann, "7", "cat")
    assert w.class_keys(service.agent, service.ann, ["dog", "cat"]) == {"1": "dog", "7": "cat"}
    assert w.kept_keys(service.agent, service.bob) == {"1": "cat", "2": "dog"}
    assert w.class_keys(service.agent, service.eve, ["cat"]) == {}, "who only looks is given none"


def test_a_key_is_taken_away_by_its_owner_and_goes_to_the_next_that_deserves_it(service: Service) -> None:
    w, agent, labels = service.workspace, service.agent, ["cat", "dog", *EVERY]
    likely = ["cat", "dog", *EVERY[:8]]
    full = w.class_keys(agent, service.ann, labels, likely)
    assert (len(full), full["1"], full["2"]) == (9, "cat", "dog")
    w.class_keys(agent, service.bob, ["cat", "dog"])
    w.take_key(agent, service.ann, "1")
    assert "1" not in w.kept_keys(agent, service.ann)
    assert w.kept_keys(agent, service.bob) == {"1": "cat", "2": "dog"}, "of others, nothing is taken"
    again = w.class_keys(agent, service.ann, labels, likely)
    assert again == {**full, "1": EVERY[7]}, "the next in line has it; all others keep theirs"
    w.take_key(agent, service.ann, "1")
    assert w.class_keys(agent, service.ann, labels, ["cat"]) == {k: v for k, v in full.items() if k != "1"}
    # until it is given one on purpose: then it is as any other
    w.give_key(agent, service.ann, "1", "cat")
    assert w.class_keys(agent, service.ann, labels, likely) == full
    w.give_key(agent, service.ann, "1", "dog")
    assert w.class_keys(agent, service.ann, labels, ["cat"]) == {**full, "1": "dog", "2": "cat"}


def test_a_class_whose_key_was_taken_away_gets_none_by_itself_on_any_screen(service: Service) -> None:
    w, agent = service.workspace, service.agent
    assert w.class_keys(agent, service.ann, ["cat", "dog"]) == {"1": "cat", "2": "dog"}
    w.take_key(agent, service.ann, "1")
    w.take_key(agent, service.ann, "1")
    for labels in (["cat", "dog"], ["dog", "cat"], ["cat", "dog", *EVERY]):
        assert w.class_keys(agent, service.ann, labels, likely=["cat"]) == {"2": "dog"}
    assert [row.action for row in w.audit(service.ann, action="take key")] == ["take key"]


def test_keys_are_refused_that_are_none_and_to_those_who_only_look(service: Service) -> None:
    w, agent = service.workspace, service.agent
    for key in ("0", "12", "", "a", "١"):
        with pytest.raises(BadOption, match="one of 1, 2"):
            w.take_key(agent, service.ann, key)
    with pytest.raises(NotFound):
        w.take_key(99, service.ann, "1")
    with pytest.raises(NotAllowed):
        w.take_key(agent, service.eve, "1")


@settings(deadline=None)
@given(
    kept=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(EVERY), max_size=9),
    likely=st.lists(st.sampled_from(EVERY), max_size=20),
)
def test_keys_are_nine_at_most_and_none_changes_hands(kept: dict[str, str], likely: list[str]) -> None:
    kept = {key: label for key, label in kept.items() if list(kept.values()).count(label) == 1}
    keys = assigned(likely, EVERY, kept)
    assert kept.items() <= keys.items()
    assert set(keys) <= set(KEYS)
    assert len(set(keys.values())) == len(keys)
    assert offered(keys, EVERY) == dict(sorted(keys.items()))


# -- finding ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(name=st.sampled_from(EVERY), place=st.integers(0, 30), kind=st.sampled_from(["drop", "double", "swap"]))
def test_a_name_with_one_typo_is_among_the_first_three_and_never_taken_for_another(
    name: str, place: int, kind: str
) -> None:
    if len(name) < 5:
        return
    place %= len(name) - 1
    typed = {
        "drop": name[:place] + name[place + 1 :],
        "double": name[:place] + name[place] + name[place:],
        "swap": name[:place] + name[place + 1] + name[place] + name[place + 2 :],
    }[kind]
    found = find(typed, EVERY)
    assert name in [match.label for match in found[:3]]
    literal = [match.label for match in found if match.literal]
    assert (
        all(typed.strip().replace(" ", "") in str(label).replace(" ", "") for label in literal)
        or name in literal
    )


@settings(deadline=None)
@given(name=st.sampled_from(EVERY))
def test_a_name_is_found_by_itself_in_capitals_backwards_and_in_the_plural(name: str) -> None:
    for typed in (name, name.upper(), f" {name} ", " ".join(reversed(name.split())), name.replace("e", "é")):
        assert find(typed, EVERY)[0].label == name
    if not name.endswith(("s", "y", "sh", "ch", "x", "man", "mouse")):
        assert find(f"{name}s", EVERY)[0].label == name


def test_likely_ones_come_first_among_equals_only() -> None:
    assert find("be", EVERY)[0].label != "beetle"
    assert find("be", EVERY, first=["beetle"])[0].label == "beetle"
    assert find("bed", EVERY, first=["beetle"])[0].label == "bed"
    assert find("?!", EVERY) == []

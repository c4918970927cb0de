"""Colours of methods: each its own, in whatever company; and the numbers of a confusion matrix."""

from itertools import combinations

from cual.bench.colours import APART, OTHERS, OWN, colours, distance
from cual.bench.figures import confusion_matrix
from cual.bench.results import grouped
from cual.methods import methods


def test_every_method_has_a_colour_of_its_own():
    assert {*methods} <= {*OWN}
    shades = [*OWN.values(), *OTHERS]
    assert min(distance(a, b) for a, b in combinations(shades, 2)) >= APART


def test_methods_of_others_get_colours_that_nobody_else_has():
    strangers = [f"mine-{i}" for i in range(len(OTHERS))]
    given = colours([*methods, *strangers])
    assert len({*given.values()}) == len(given)
    assert colours(["mine-3"]) == {"mine-3": colours(["mine-3", "cual"])["mine-3"]}
    assert colours(strangers[::-1]) == colours(strangers)


def test_a_confusion_matrix_has_the_percentages(make_row):
    (group,) = grouped([make_row("cual", seed, 1, 0.9) for seed in (0, 1)])
    (axes,) = confusion_matrix(group, "cual").axes
    assert [text.get_text() for text in axes.texts] == ["75", "25", "100"]

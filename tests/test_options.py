"""Checks of options, value by value: what is taken, what is refused, and where the bounds lie."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from cual import options
from cual.errors import BadOption
from cual.registry import Registry
from cual.seeds import generator


def test_whole_numbers_from_one_on_unless_told_otherwise() -> None:
    assert [options.whole("n", value) for value in (1, np.int32(7))] == [1, 7]
    assert options.whole("n", 0, 0) == 0
    for wrong in (0, -1, 1.0, True, "1", None):
        with pytest.raises(BadOption, match="n is"):
            options.whole("n", wrong)


def test_numbers_lie_within_bounds_that_belong_to_them() -> None:
    assert [options.number("x", value, 0, 1) for value in (0, 1, 0.5, np.float32(0.25))] == [0, 1, 0.5, 0.25]
    assert options.number("x", -1e300) == -1e300
    assert options.number("x", 0.5, 0, 1, without_low=True) == 0.5
    assert options.number("x", 1, 0, 1, without_low=True) == 1
    for wrong in (-1e-9, 1 + 1e-9, math.nan, math.inf, True, "1"):
        with pytest.raises(BadOption, match="x "):
            options.number("x", wrong, 0, 1)
    with pytest.raises(BadOption, match="between 0 and 1, and not at 0, but is 0"):
        options.number("x", 0, 0, 1, without_low=True)


def test_flags_names_and_options_are_what_they_are() -> None:
    assert options.flag("f", True) is True
    assert options.flag("f", np.bool_(False)) is False
    assert options.text("t", "ridge") == "ridge"
    given = options.named("o", {"epochs": np.int64(3), "head": "mlp"})
    assert given == {"epochs": 3, "head": "mlp"}
    assert type(given["epochs"]) is int
    refused: list[tuple[Any, Any]] = [
        (options.flag, 1),
        (options.flag, "yes"),
        (options.text, 3),
        (options.named, [("epochs", 3)]),
        (options.named, {"epochs": 3, 4: 5}),
    ]
    for check, wrong in refused:
        with pytest.raises(BadOption, match="but takes"):
            check("o", wrong)


@pytest.mark.parametrize(
    ("gpus", "taken", "refused"),
    [
        (0, ["cpu"], ["cuda", "cuda:0", "meta", "abacus", "mps"]),
        (2, ["cpu", "cuda", "cuda:0", "cuda:1"], ["cuda:2", "cuda:9", "meta", "abacus", "mps"]),
    ],
)
def test_a_device_is_one_that_is_here(
    gpus: int, taken: list[str], refused: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    for name in taken:
        assert options.device(name) == options.device(torch.device(name)) == torch.device(name)
    for name in refused:
        with pytest.raises(BadOption, match=f"no device '{name}' here; use cpu{' or cuda' if gpus else ''}$"):
            options.device(name)


def test_what_a_constructor_refuses_is_a_bad_option_of_that_part() -> None:
    fruit = Registry[type]("fruit")

    @fruit.add("pear")
    class Pear:
        def __init__(self, weight: float = 1.0) -> None:
            self.weight = float(weight)

    pear = fruit.part({"name": "pear", "weight": 2})
    assert fruit.part("pear", pear) is pear  # its own name leaves it as it is
    assert fruit.part({"weight": 3}, pear).weight == 3
    assert fruit.part({"name": "pear"}).weight == 1
    for wrong in ("heavy", [1]):  # a ValueError, a TypeError
        with pytest.raises(BadOption, match="fruit 'pear': "):
            fruit.part({"name": "pear", "weight": wrong})
    with pytest.raises(BadOption, match="options of a fruit need its name; known: pear"):
        fruit.part({"weight": 3})
    with pytest.raises(ValueError, match="two fruits are called 'pear'"):
        fruit.add("pear")(Pear)
    assert isinstance(pear, Pear)


def test_random_numbers_are_keyed_by_all_that_they_are_for() -> None:
    keys = [(0, 1, 2, "a"), (1, 1, 2, "a"), (0, 2, 2, "a"), (0, 1, 3, "a"), (0, 1, 2, "b")]
    draws = [generator(*key).integers(2**62) for key in keys]
    assert len(set(draws)) == len(keys)
    assert [generator(*key).integers(2**62) for key in keys] == draws

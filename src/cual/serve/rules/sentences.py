"""Sentences for people that the page may say in another language: the English text, and what stands in it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sentence:
    """Made by `said` and `said_n`, which mark the text for those who translate; `str` is the English of it.

    >>> left = Sentence("{n} label left", many="{n} labels left", n=3, values={"n": 3})
    >>> str(left)
    '3 labels left'
    """

    text: str
    many: str | None = None
    """Another text where `n` is not 1."""
    n: int = 1
    values: dict[str, object] = field(default_factory=dict[str, object])

    def __str__(self) -> str:
        text = self.text if self.many is None or self.n == 1 else self.many
        return text.format(**self.values)


def said(text: str, /, **values: object) -> Sentence:
    """
    >>> str(said("Version {number} is made.", number=3))
    'Version 3 is made.'
    """
    return Sentence(text, values=values)


def said_n(one: str, many: str, n: int, /, **values: object) -> Sentence:
    """
    >>> str(said_n("{n} question waits.", "{n} questions wait.", 4))
    '4 questions wait.'
    """
    return Sentence(one, many, n, {"n": n, **values})

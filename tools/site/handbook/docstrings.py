"""Docstrings as numpydoc wants them: examples and last remarks, which ours have without a heading, get one."""

import re
from typing import Any

import griffe

_SECTION = re.compile(r"(\w+)\n-{3,}\n?")


def sectioned(text: str) -> str:
    """A docstring whose examples, and sentences behind its parameters, are sections of their own."""
    sections: list[str] = []
    inside = ""
    for paragraph in re.split(r"\n\n+", text):
        if heading := _SECTION.match(paragraph):
            inside = heading[1]
        elif paragraph.startswith(">>> ") and inside != "Examples":
            inside = "Examples"
            paragraph = f"Examples\n--------\n{paragraph}"
        elif inside == "Parameters" and not _is_parameter(paragraph):
            inside = "Notes"
            paragraph = f"Notes\n-----\n{paragraph}"
        sections.append(paragraph)
    return "\n\n".join(sections)


def _is_parameter(paragraph: str) -> bool:
    """Whether it is a name with an explanation below, or goes on with one."""
    first, _, rest = paragraph.partition("\n")
    return first.startswith(" ") or rest.startswith(" ")


class Sections(griffe.Extension):
    """Gives docstrings their headings before they are parsed."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = sectioned(obj.docstring.value)

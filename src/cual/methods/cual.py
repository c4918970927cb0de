"""CUAL as the paper states it: every default of `Method`."""

from cual.methods.base import Method, add

CUAL = add(Method(name="cual", summary="the paper's method: ambiguous queries and confident pseudo-labels"))

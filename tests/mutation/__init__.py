"""Mutation tests of the core rooms: a tool puts small bugs in, one at a time, and a test of the room must fail.

    PYTHONPATH=tests python -m mutation [--room loop] [--sample 20 | --all] [--jobs 2]

Not a test itself: `make mutants` runs it. Bugs put in by hand are in `tests/mutants.py`.
"""

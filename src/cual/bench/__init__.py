"""The paper's experiments on any features: streams, runner, results, tables, figures and report.

Running (`settings`, `streams`, `annotators`, `runner`, `folder`, `jobs`) needs numpy and torch only, so that
it also works on a GPU machine where nothing can be installed; `figures` loads matplotlib when it draws.
"""

PROTOCOL = 1
"""Version of the protocol: how streams are drawn, what is asked and charged, and how accuracy is measured.

It is raised when a change there gives other figures for the same method, and written into every row, `run.json`
and `summary.json`, so that a leaderboard never compares figures of different versions.
"""

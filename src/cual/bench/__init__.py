"""The paper's experiments on any features: streams, runner, results, tables, figures and report.

Running (`settings`, `streams`, `annotators`, `runner`, `folder`, `jobs`) needs numpy and torch only, so that
it also works on a GPU machine where nothing can be installed; `figures` loads matplotlib when it draws.
"""

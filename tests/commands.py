"""The command line in this process, for tests: what it says, and what it refuses."""

from typer.testing import CliRunner, Result

from cual.cli import app


def cual(*arguments: object) -> Result:
    """Give a command; what it did not expect is raised."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*arguments: object) -> str:
    """What a command says that cannot do what it was told."""
    result = cual(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr

"""The command line in this process, for tests: what it says, and what it refuses."""

from typer.testing import CliRunner, Result

from cual.cli import app


def cual(*arguments: object, input: str | None = None) -> Result:
    """Give a command, and type; what it did not expect is raised."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=input, env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments: object, input: str | None = None) -> Result:
    """A command that does what it was told."""
    result = cual(*arguments, input=input)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> str:
    """What a command says that cannot do what it was told."""
    result = cual(*arguments)
    assert result.exit_code == 2, result.output
    return result.stderr

"""Every error that `cual` raises on purpose. Each message says what was wrong, where, and what to do."""


class CualError(Exception):
    """Base of all errors raised by cual on purpose."""


class BadFeatures(CualError, ValueError):
    """Features of the wrong shape, width or type, or with NaN or infinite entries."""


class BadLabels(CualError, ValueError):
    """Labels that do not fit the features, or of a type that the agent's classes do not have."""


class BadBudget(CualError, ValueError):
    """A budget that is not a share of the pool or a count, or is below one label."""


class BadOption(CualError, ValueError):
    """An option that a method does not have, or a value out of its range."""


class EmptyPool(CualError, ValueError):
    """A pool without samples."""


class DuplicateIds(CualError, ValueError):
    """Two samples of a pool carry the same id."""


class TooFewSamples(CualError, ValueError):
    """Too few labelled samples for what was asked."""


class UnknownName(CualError, LookupError):
    """No strategy, head or method of that name."""


class UnknownQuery(CualError, LookupError):
    """An answer to a query that was never asked."""


class UnknownSample(CualError, LookupError):
    """An answer about a sample that the query did not ask about."""


class UnknownClass(CualError, LookupError):
    """A class that the agent does not know."""


class SamplesMissing(CualError, LookupError):
    """What is to be taken back is not kept, and was not given."""


class LabelsMissing(CualError, RuntimeError):
    """The adaptation cannot finish: a query still waits for answers."""


class BudgetExceeded(CualError, RuntimeError):
    """An answer that would cost more labels than the budget has left."""


class AlreadyFinished(CualError, RuntimeError):
    """The adaptation has ended in its next agent; it takes no more answers."""


class BadFile(CualError, ValueError):
    """A file that cannot be used. The subclasses say why."""


class DamagedFile(BadFile):
    """A truncated or corrupted file."""


class ForeignFile(BadFile):
    """A file that cual did not write."""


class NewerFormat(BadFile):
    """A file written by a newer cual."""


class WrongEncoder(BadFeatures):
    """Features of another encoder than the one that the agent or the folder knows."""


class FolderInUse(CualError, RuntimeError):
    """Another process is writing into the folder."""


class StreamsFailed(CualError, RuntimeError):
    """Some streams of a run ended in an error; the others are finished, and running again resumes."""


class WorkersLost(CualError, RuntimeError):
    """A cluster loses its workers again and again; what was done is kept, and running again resumes."""


class Unavailable(CualError, RuntimeError):
    """Weights, data or a package that are not on this machine, or a service that does not answer now.

    The message says what can be done.
    """


class MissingPackage(Unavailable, ImportError):
    """A package that is not installed; the message names the extra of cual that brings it."""


class NotExportable(CualError, ValueError):
    """An agent or an encoder that cannot be written in the format that was asked for; the message says why."""


class BadImage(CualError, ValueError):
    """An image that cannot be decoded, or is too large to be decoded safely."""


class NotFound(CualError, LookupError):
    """Nothing in the workspace has that id."""


class NotAllowed(CualError, PermissionError):
    """Who asked may not do this."""


class Conflict(CualError, RuntimeError):
    """What was asked does not fit the state that things are in now."""


class TooLarge(CualError, ValueError):
    """More than the service, or a file, takes in one piece."""


class TooManyRequests(CualError, RuntimeError):
    """Somebody waits for more at once than one person may; some of it must be answered first."""


class Overloaded(CualError, RuntimeError):
    """The service has as much to do as it can hold; try again in a moment."""


class BadSignature(CualError, ValueError):
    """A webhook's body was not signed by the service, or too long ago."""


class PredictionsStopped(CualError, RuntimeError):
    """What computes predictions has ended unexpectedly or does not come to an end; try again in a moment."""


class FileLost(CualError, RuntimeError):
    """A file of the workspace is gone or damaged; `cual check` lists all of them, a backup has them."""

"""cual-plus's learner: the whitened space, the competition for samples, and who their neighbours are."""

from cual.learners.prototypes.learner import PrototypeLearner, Prototypes

__all__ = ["PrototypeLearner", "Prototypes"]

"""The paper's five datasets, from their official files to a folder per class. Encoding them is `cual embed`'s.

Any other folder of images by class, table of text or Hugging Face dataset on disk needs no preparation.
"""

from cual.datasets import cifar100 as _cifar100
from cual.datasets import eurosat as _eurosat
from cual.datasets import imagenet21k as _imagenet21k
from cual.datasets import places as _places
from cual.datasets import plants as _plants
from cual.datasets.base import Dataset, datasets, get

del _cifar100, _eurosat, _imagenet21k, _places, _plants  # imported so that they are registered

__all__ = ["Dataset", "datasets", "get"]

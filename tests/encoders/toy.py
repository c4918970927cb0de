"""Functions that tests use as encoders."""

import numpy as np


def brightness(images):
    return [[*np.asarray(i, float).mean(axis=(0, 1)), i.width] for i in images]


def letters(texts):
    return [[t.count(c) for c in "abcde"] + [len(t)] for t in texts]

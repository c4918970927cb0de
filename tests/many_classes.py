"""A workspace with many classes, each a colour and a place in feature space; a few are new to its agent."""

from pathlib import Path

import numpy as np

from cual import Agent, Pool
from cual.serve.jobs.worker import Worker
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from serving import add_person

_NAMES = """
airplane, alligator, ambulance, anchor, apple, aquarium fish, armadillo, artichoke, backpack, badger,
banana, barn owl, baseball, basket, bassoon, beaver, bed, bee, beetle, bottle, bowl, boy, bridge, broccoli,
bus, butterfly, cabbage, camel, candle, can, canoe, castle, caterpillar, cattle, chair, chimpanzee, clock,
cloud, cockroach, couch, crab, crocodile, cup, daisy, dinosaur, dolphin, dragonfly, drum, eagle, elephant,
elevator, envelope, falcon, fiddle, flatfish, flamingo, fork, fountain, fox, frog, garbage truck, girl,
giraffe, goldfish, golf cart, goose, grasshopper, guitar, hammer, hamster, hedgehog, helicopter, heron,
house, iguana, jellyfish, kangaroo, kettle, keyboard, ladybug, lamp, lawn mower, leopard, lighthouse, lion,
lizard, lobster, man, maple tree, motorcycle, mountain, mouse, mushroom, necklace, oak tree, orange, orchid,
otter, palm tree, parachute, pear, peacock, pelican, piano, pickup truck, pine tree, pineapple, plain,
plate, polar bear, poppy, porcupine, possum, rabbit, raccoon, ray, refrigerator, road, rocket, rose, sea,
sea lion, seal, shark, shrew, skunk, skyscraper, snail, snake, spider, squirrel, streetcar, sunflower, sweet
pepper, table, tank, telephone, television, tiger, toaster, tractor, train, trout, trumpet, tulip, turtle,
umbrella, violin, volcano, wardrobe, whale, willow tree, wolf, woman, worm, zebra
"""
NEW = ("weather balloon", "café table", "bicycle")
"""Classes of which the agent knows nothing."""


def names(n: int) -> list[str]:
    """Names as data sets of photographs have them, spread over the alphabet.

    >>> names(3), len(set(names(150)))
    (['airplane', 'keyboard', 'zebra'], 150)
    """
    every = " ".join(_NAMES.split()).split(", ")
    return [every[round(i * (len(every) - 1) / max(1, n - 1))] for i in range(n)]


def make_workspace(folder: Path, n: int, budget: int, noise: float = 0.5) -> tuple[Workspace, list[str]]:
    """A workspace that asks, of `n` known classes and a few new ones; and the class of each row of its pool.

    Parameters
    ----------
    noise
        How far samples lie from their class: how often a suggestion is wrong.
    """
    rng = np.random.default_rng(n)
    known = names(n)
    centres = {name: rng.normal(0, 1, 32) for name in (*known, *NEW)}

    def draw(labels: list[str]) -> np.ndarray:
        return np.stack([centres[name] + rng.normal(0, noise, 32) for name in labels]).astype(np.float32)

    first = [name for name in known for _ in range(12)]
    truth = [name for name in known for _ in range(4)] + [name for name in NEW for _ in range(12)]
    rng.shuffle(truth)
    workspace = Workspace.open(folder)
    agent = workspace.add_agent("zoo", Agent.fit(draw(first), first, seed=0), OPERATOR)
    colours = {name: rng.integers(40, 220, 3) for name in centres}
    pictures = np.stack([np.broadcast_to(colours[name], (24, 24, 3)) for name in truth]).astype(np.uint8)
    pool = workspace.add_pool("zoo", Pool(draw(truth)), agent.id, OPERATOR, pictures=pictures)
    Worker(workspace).run_until_idle()
    workspace.start(agent.id, pool.id, budget, add_person(workspace, "lead", Role.admin))
    Worker(workspace).run_until_idle()
    return workspace, truth

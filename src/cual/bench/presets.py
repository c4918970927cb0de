"""Named runs: the paper's tables and figures, the shared data, and a smoke test. Only settings, no running."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cual.bench.settings import DIGITS, Setting
from cual.methods import methods
from cual.registry import Registry

Preset = Callable[[str, Path], dict[str, Setting]]
"""Takes the device and the folder with features; gives named settings."""
presets = Registry[Preset]("preset")

SEEDS = (0, 1, 2)
MORE_SEEDS = (3, 4)
BUDGETS = (0.005, 0.0125, 0.025, 0.05)
TABLE1 = ("oracle", "cual", "er-entropy", "er-random", "er-entropy-oneshot", "pseudo-er-entropy", "ccic")
ABLATIONS = ("cual", "al-top", "al-random", "al-oneshot", "only-al", "only-al-random", "only-al-8x")
CURVES = ("oracle", "cual", "er-entropy", "pseudo-er-entropy", "ccic")
ENCODERS = {"R50": "swav-resnet50", "ViT": "dino-vits16"}

PAPER = {
    "im21k-ood": Setting("", first=10, increment=5, budget=0.0125, buffer=5000),
    "places365-ood": Setting("", first=10, increment=5, budget=0.0125, buffer=5000),
    "eurosat": Setting("", first=2, increment=1, budget=0.005, buffer=2500),
    "cifar100-super": Setting("", first=4, increment=2, budget=0.005, buffer=2500),
    "inat-plants-20": Setting("", first=4, increment=2, budget=0.0125, buffer=5000),
}
"""The paper's datasets with their protocol; first classes and most increments are ours (see paper.json)."""
TABLED = ("im21k-ood", "places365-ood", "eurosat", "cifar100-super")
"""Those that the paper's tables have; of Plants it prints the budget and no figure."""

SHARED = {
    "eurosat-r50": PAPER["eurosat"],
    "cifar100-super-r50": PAPER["cifar100-super"],
    "places50-r50": PAPER["places365-ood"],
}


def available(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the methods that this version of the library has.

    >>> available(["cual", "of a later release"])
    ('cual',)
    """
    return tuple(name for name in names if name in methods)


def on_paper_data(dataset: str, backbone: str, features: Path, **changes: object) -> Setting:
    """A setting on one of the paper's datasets, with the commands that make its features.

    >>> for command in on_paper_data("eurosat", "R50", Path("features")).made_by:
    ...     print(command)
    cual data get eurosat
    cual embed data/eurosat --encoder swav-resnet50 -o features/eurosat-swav-resnet50.npz
    """
    file = features / f"{dataset}-{ENCODERS[backbone]}.npz"
    made_by = (
        f"cual data get {dataset}",
        f"cual embed data/{dataset} --encoder {ENCODERS[backbone]} -o {file}",
    )
    return replace(PAPER[dataset], features=str(file), made_by=made_by, seeds=SEEDS, **changes)  # pyright: ignore[reportArgumentType]


@presets.add("smoke")
def smoke(device: str, features: Path) -> dict[str, Setting]:
    """Digits, one seed: does everything work? Under a minute.

    >>> smoke("cpu", Path("features"))["digits"].methods
    ('oracle', 'cual-plus', 'cual', 'er-entropy', 'er-random')
    """
    del features
    few = ("oracle", "cual-plus", "cual", "er-entropy", "er-random")
    return {"digits": Setting(DIGITS, few, budget=0.02, buffer=500, device=device)}


@presets.add("paper-table1")
def paper_table1(device: str, features: Path) -> dict[str, Setting]:
    """Figure 2, left: four datasets, two backbones, CUAL and the baselines."""
    return {
        f"{dataset}-{ENCODERS[backbone]}": on_paper_data(
            dataset, backbone, features, methods=available(TABLE1), device=device
        )
        for dataset in TABLED
        for backbone in ENCODERS
    }


@presets.add("paper-plants")
def paper_plants(device: str, features: Path) -> dict[str, Setting]:
    """Plants-20, two backbones, methods of figure 2, left: section 3.1 names it, no table has it."""
    return {
        f"inat-plants-20-{ENCODERS[backbone]}": on_paper_data(
            "inat-plants-20", backbone, features, methods=available(TABLE1), device=device
        )
        for backbone in ENCODERS
    }


@presets.add("paper-ablations")
def paper_ablations(device: str, features: Path) -> dict[str, Setting]:
    """Figure 2, right: CUAL with one thing changed or taken away."""
    return {
        dataset: on_paper_data(dataset, "R50", features, methods=available(ABLATIONS), device=device)
        for dataset in TABLED
    }


@presets.add("paper-increments")
def paper_increments(device: str, features: Path) -> dict[str, Setting]:
    """Appendix 4.3: 1, 3, 5 and 7 new classes per task on Im21K-OOD, 2.5 %.

    >>> {name: run.increment for name, run in paper_increments("cpu", Path("features")).items()}
    {'im21k-ood-by-1': 1, 'im21k-ood-by-3': 3, 'im21k-ood-by-5': 5, 'im21k-ood-by-7': 7}
    """
    return {
        f"im21k-ood-by-{n}": on_paper_data(
            "im21k-ood", "R50", features, methods=available(CURVES), increment=n, budget=0.025, device=device
        )
        for n in (1, 3, 5, 7)
    }


@presets.add("paper-budgets")
def paper_budgets(device: str, features: Path) -> dict[str, Setting]:
    """Figure 1, right: budgets of 0.5 % to 5 %; CCIC at 10 % as well."""
    named: dict[str, Setting] = {}
    for dataset in TABLED:
        for budget in BUDGETS:
            named[f"{dataset}-{budget:g}"] = on_paper_data(
                dataset, "R50", features, methods=available(CURVES), budget=budget, device=device
            )
        if "ccic" in methods:
            named[f"{dataset}-0.1"] = on_paper_data(
                dataset, "R50", features, methods=("ccic",), budget=0.1, device=device
            )
    return named


@presets.add("shared-data")
def shared_data(device: str, features: Path) -> dict[str, Setting]:
    """All methods on the three shared feature files, 3 seeds; 5 for cual, er-entropy and the Oracle."""
    named: dict[str, Setting] = {}
    for name, protocol in SHARED.items():
        base = replace(protocol, features=str(features / f"{name}.npz"), device=device)
        named[name] = replace(base, methods=methods.names(), seeds=SEEDS)
        named[f"{name}-more-seeds"] = replace(base, methods=("oracle", "cual", "er-entropy"), seeds=MORE_SEEDS)
    return named


@presets.add("shared-noise")
def shared_noise(device: str, features: Path) -> dict[str, Setting]:
    """Wrong answers (0 to 40 %) on the shared EuroSAT features.

    >>> [run.wrong for run in shared_noise("cpu", Path("features")).values()]
    [0.0, 0.1, 0.2, 0.4]
    """
    base = replace(PAPER["eurosat"], features=str(features / "eurosat-r50.npz"), seeds=SEEDS, device=device)
    return {
        f"wrong-{wrong:g}": replace(base, methods=available(("cual", "er-entropy", "al-random")), wrong=wrong)
        for wrong in (0.0, 0.1, 0.2, 0.4)
    }


@presets.add("shared-budgets")
def shared_budgets(device: str, features: Path) -> dict[str, Setting]:
    """Budgets of 0.5 % to 5 % on the shared EuroSAT features; CCIC at 10 % as well.

    >>> list(shared_budgets("cpu", Path("features")))
    ['budget-0.005', 'budget-0.0125', 'budget-0.025', 'budget-0.05', 'budget-0.1']
    """
    base = replace(PAPER["eurosat"], features=str(features / "eurosat-r50.npz"), seeds=SEEDS, device=device)
    few = available(("cual", "er-entropy", "er-random", "pseudo-er-entropy", "ccic"))
    named = {f"budget-{budget:g}": replace(base, methods=few, budget=budget) for budget in BUDGETS}
    return named | {"budget-0.1": replace(base, methods=("ccic",), budget=0.1)}


@presets.add("shared-rare")
def shared_rare(device: str, features: Path) -> dict[str, Setting]:
    """Pools in which new classes are rare (1:10 and 1:50) on the shared EuroSAT features.

    >>> list(shared_rare("cpu", Path("features")))
    ['rare-10', 'rare-50']
    """
    base = replace(PAPER["eurosat"], features=str(features / "eurosat-r50.npz"), seeds=SEEDS, device=device)
    return {
        f"rare-{rarity:g}": replace(
            base,
            methods=available(("oracle", "cual", "er-entropy", "er-random")),
            rarity=rarity,
            budget=0.0125,
        )
        for rarity in (10.0, 50.0)
    }

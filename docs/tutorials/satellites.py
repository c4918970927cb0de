# %% [markdown]
# # Satellite images from folders
#
# **The problem.** You have satellite tiles, sorted into a folder per class, and a classifier for them. New
# tiles come in every day, nobody has labelled them, and some show things that had no folder yet. Labelling
# them all is out of the question.
#
# **What we do.** We learn the known classes from their folders, let the agent look at an unlabelled folder,
# answer a dozen questions, and get a classifier that knows the new classes too.
#
# ```sh
# pip install 'cual[encoders,bench]'
# ```
#
# ## Pictures
#
# So that this runs anywhere, the pictures are drawn here: small tiles in six classes. Set `EUROSAT` to a
# folder of real ones, and the same script takes those instead (we do so [at the
# end](#real-satellite-images)). Four classes are known. The folder `pool` has tiles of all six, without
# labels; `truth` is what a person would see in them.

# %%
import os
import random
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

KNOWN = ["AnnualCrop", "Forest", "Residential", "River"]
NEW = ["Industrial", "SeaLake"]


def tile(name: str, seed: int) -> Image.Image:
    """A tile of 64 × 64 pixels, seen from above and drawn with a broad brush."""
    rng = random.Random(f"{name} {seed}")

    def shade(*colour: int) -> tuple[int, ...]:
        return tuple(c + rng.randrange(-25, 25) for c in colour)

    grounds = {"Forest": (45, 75, 50), "SeaLake": (35, 60, 95), "Industrial": (140, 135, 130)}
    image = Image.new("RGB", (64, 64), shade(*grounds.get(name, (120, 125, 85))))
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randrange(40, 60)):
        x, y = rng.randrange(64), rng.randrange(64)
        if name == "Forest":
            draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=shade(40, 70, 45))
        elif name == "Residential":
            draw.rectangle((x // 8 * 8, y // 8 * 8, x // 8 * 8 + 5, y // 8 * 8 + 4), fill=shade(170, 110, 90))
        elif name == "Industrial" and rng.random() < 0.2:
            width, height = rng.randrange(14, 30), rng.randrange(8, 20)
            draw.rectangle((x, y, x + width, y + height), fill=shade(215, 215, 215))
        elif name == "AnnualCrop" and rng.random() < 0.2:
            draw.rectangle((x, 0, x + rng.randrange(6, 20), 64), fill=shade(150, 130, 80))
        elif name == "SeaLake":
            draw.line((x, y, x + rng.randrange(8), y), fill=shade(35, 60, 95))
    if name == "River":
        bends = [(x, 32 + rng.randrange(-24, 24)) for x in range(-10, 80, 15)]
        draw.line(bends, fill=shade(60, 85, 110), width=rng.randrange(5, 10), joint="curve")
    return image.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.2)))


EUROSAT = os.environ.get("EUROSAT")
truth: dict[str, str] = {}
for name in KNOWN + NEW:
    real = sorted(Path(EUROSAT, name).glob("*.jpg")) if EUROSAT else []
    for n in range(60):
        place = Path("test", name) if n < 20 else Path("pool") if name in NEW or n < 30 else Path("known", name)
        place.mkdir(parents=True, exist_ok=True)
        if place == Path("pool"):
            file = place / f"{random.Random(f'{name} {n}').randrange(10**6):06}.png"
            truth[file.name] = name
        else:
            file = place / f"{n:04}.png"
        (Image.open(real[n]) if EUROSAT else tile(name, n)).save(file)

for folder in ("known", "pool", "test"):
    print(folder, len(list(Path(folder).rglob("*.png"))), "tiles")

# %% [markdown]
# ## The first agent
#
# `features_of` reads a folder and turns every picture into features with an encoder, here
# EfficientNet-Lite0, whose weights came with pip. Folders become labels. The agent learns from the features
# and remembers which encoder made them, so that features of another one are refused later.

# %%
from cual import Agent
from cual.encoders import features_of

known = features_of("known", "efficientnet-lite0")
agent = Agent.fit(known.X, known.labels(), encoder=known.encoder)
print(agent)

# %% [markdown]
# ## What is unlike anything known?
#
# The pool is encoded the same way. `novelty_together` says of samples that arrived together how far each
# lies from everything that the agent knows, and above which score it is probably novel. That threshold
# comes from known samples that were held out, not from the pool. (For samples that come one by one there is
# `agent.novelty`.) We use the truth only to colour the figure.

# %% ± 0.05
import matplotlib.pyplot as plt
import numpy as np

pool = features_of("pool", fingerprint=agent.encoder)
is_new = np.array([truth[id] in NEW for id in pool.ids])
scores, threshold = agent.novelty_together(pool.X)

above = scores > threshold
print(f"called novel: {above[is_new].mean():.2f} of new classes, {above[~is_new].mean():.2f} of known ones")

kind = "eurosat" if EUROSAT else "drawn"
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.hist([scores[~is_new], scores[is_new]], bins=30, label=["known classes", "new classes"], stacked=True)
axes.axvline(float(threshold), color="black", linestyle="--", label="threshold")
axes.set(xlabel="novelty", ylabel="tiles of the pool")
axes.legend()
Path("figures").mkdir(exist_ok=True)
figure.savefig(f"figures/satellites-novelty-{kind}.svg")

# %% [markdown]
# ![Novelty of the pool's tiles: those of new classes lie to the right](figures/satellites-novelty-drawn.svg)
#
# ## A dozen questions
#
# An adaptation is one pool and one budget. It asks in rounds: what it learns from the first answers decides
# what it asks next. Here `truth` answers; you would look at the picture. A name that nobody has said before
# makes a new class, `cual.SKIP` means "cannot tell".

# %%
BUDGET = 12
task = agent.adapt(pool.X, budget=BUDGET, ids=pool.ids)
asked: list[str] = []
while query := task.ask():
    task.tell(query.id, {id: truth[id] for id in query.ids})
    asked += query.ids
adapted = task.finish()
found = sorted(set(adapted.classes_) - set(agent.classes_))
print(f"{task.labels_used} labels for {len(pool.X)} tiles; new classes: {', '.join(found)}")

# %% [markdown]
# These are the tiles that it asked about, with what we said. Most of them are of the new classes; with the
# others the agent makes sure of what it believes to know.

# %%
figure, grid = plt.subplots(2, 6, figsize=(6.5, 2.7), layout="constrained")
for axes, id in zip(grid.flat, asked):
    axes.imshow(Image.open(Path("pool", id)))
    axes.set_title(truth[id], fontsize=8)
for axes in grid.flat:
    axes.axis("off")
figure.savefig(f"figures/satellites-asked-{kind}.png")

# %% [markdown]
# ![The twelve tiles that were asked about, with their classes](figures/satellites-asked-drawn.png)
#
# ## Was it worth it?
#
# The test tiles have taken no part in anything. The old agent must be wrong about classes that it has never
# heard of; the question is whether the new one knows them, and still knows the others.

# %% ± 0.05
test = features_of("test", fingerprint=agent.encoder)
y = test.labels()
for title, version in (("before", agent), ("after", adapted)):
    right = version.predict(test.X) == y
    of_known, of_new = right[np.isin(y, KNOWN)].mean(), right[np.isin(y, NEW)].mean()
    print(f"{title:6}  known classes {of_known:.2f}, new classes {of_new:.2f}, all {right.mean():.2f}")

# %% [markdown]
# A dozen labels for two classes would be few. The agent also took the certain rest of the pool for what it
# looks like, without asking:

# %% ± 4
believed = task.pseudo_labels
right = sum(truth[id] == label for id, label in believed.items())
print(f"{len(believed)} tiles were labelled without asking, {right} of them rightly")

# %% [markdown]
# `adapted` is version 1; version 0 is unchanged, so there is always a way back. Save it, and predict one
# picture:

# %%
adapted.save("v1.agent")
again = Agent.load("v1.agent")
one = features_of("test/SeaLake", fingerprint=again.encoder)
print(again.predict(one.X[:1])[0], "version", again.version)

# %% [markdown]
# ## The same on the command line
#
# ```sh
# cual fit known -o v0.agent
# cual adapt v0.agent pool -o v1.agent --budget 12    # shows each picture in the terminal and asks
# cual evaluate v1.agent test
# cual predict v1.agent new-tile.png
# ```
#
# ## Real satellite images
#
# EuroSAT has ten classes of tiles of the Sentinel-2 satellites (MIT licence; `cual data get eurosat`
# fetches it). This is the same script on the first 60 tiles of six classes in a folder per class. Your
# folder may hold other tiles of EuroSAT than ours, so your numbers will be a little different:

# %% [again] ± 0.1 EUROSAT=../shared/data/eurosat-images

# %% [markdown]
# ![Novelty of EuroSAT tiles](figures/satellites-novelty-eurosat.svg)
#
# ![The EuroSAT tiles that were asked about](figures/satellites-asked-eurosat.png)
#
# Real tiles are harder: some known ones look novel too, so some questions go to known classes, and not all
# that was labelled without asking is right.
#
# ## Where to go on
#
# - [Questions in the terminal, and as files](../terminal.md) for people who label elsewhere
# - [Other encoders](../encoders.md): your own network, one of Hugging Face, an ONNX file
# - [A team on the page](team.md): several people answer in the browser
# - [What was measured](../results.md) on whole datasets, task after task

# %% [markdown]
# # Intents from a CSV, with pandas
#
# **The problem.** People write to a help desk. A table of older messages says what each of them wanted; a
# new export from the ticket system says nothing, and customers have begun to ask about things that are in
# nobody's list.
#
# **What we do.** We read both tables with pandas, learn the known intents, answer a few questions about the
# new messages, and write a table with a label for every message that the agent is sure of. The index of the
# table says which message is which all the way.
#
# ```sh
# pip install 'cual[encoders,bench]' pandas
# ```
#
# ## Two tables
#
# So that this runs anywhere, the messages are put together from phrases here, and written as CSV files as
# you would have them. (Set `INTENTS` to a table of your own with the columns `text` and `label`, and the
# script takes that; we do so [at the end](#real-messages).) `wanted` is what a person reads in the new
# messages; the agent does not get it.

# %%
import os
import random

import pandas as pd

KNOWN = ["card_arrival", "lost_or_stolen_card", "exchange_rate"]
NEW = ["top_up_failed", "verify_my_identity"]
PHRASES = {
    "card_arrival": [
        "when will my {} card {}",
        "will the {} card that I ordered {}",
        "how soon will my {} card {}",
    ],
    "lost_or_stolen_card": [
        "I lost my {} card {}",
        "somebody stole my {} card {}",
        "my {} card is gone {}, block it",
    ],
    "exchange_rate": [
        "what is your rate for {} {}",
        "how do you set the exchange rate of {} {}",
        "what do I get for {} {}",
    ],
    "top_up_failed": [
        "my top-up with {} failed {}",
        "adding money by {} did not work {}",
        "top-up by {} refused {}",
    ],
    "verify_my_identity": ["why must I verify who I am with {} {}", "is {} enough to prove my identity {}"],
}
CARDS = ["new", "debit", "gold", "travel", "second", "virtual"]
PLACES = ["in Oslo", "on the train", "at work", "today"]
WORDS = {
    "card_arrival": (CARDS, ["arrive", "be here", "be delivered", "reach me in Madrid", "come by post"]),
    "lost_or_stolen_card": (CARDS, PLACES),
    "exchange_rate": (
        ["euros", "yen", "dollars", "francs", "zloty"],
        ["to pounds", "at the weekend", "abroad", "now"],
    ),
    "top_up_failed": (
        ["bank transfer", "my card", "Apple Pay", "cheque"],
        ["again", *PLACES, "twice", "yesterday"],
    ),
    "verify_my_identity": (
        ["a passport", "a selfie", "my licence", "an old bill"],
        ["again", *PLACES, "since May"],
    ),
}


def messages(intent: str, n: int) -> list[str]:
    """Different messages that want the same."""
    rng, found = random.Random(intent), dict[str, None]()
    while len(found) < n:
        found[rng.choice(PHRASES[intent]).format(*map(rng.choice, WORDS[intent]))] = None
    return list(found)


if "INTENTS" in os.environ:
    table = pd.read_csv(os.environ["INTENTS"])[["text", "label"]]
    table = table[table["label"].isin(KNOWN + NEW)]
else:
    rows = [(text, intent) for intent in PHRASES for text in messages(intent, 40)]
    table = pd.DataFrame(rows, columns=["text", "label"])

table = table.groupby("label").head(100).sample(frac=1, random_state=0)
table["ticket"] = [f"T-{number:04}" for number in range(len(table))]
is_old = table["label"].isin(KNOWN) & (table.groupby("label").cumcount() % 2 == 0)
table[is_old].to_csv("labelled.csv", index=False)
table[~is_old].drop(columns="label").to_csv("export.csv", index=False)
wanted = table.set_index("ticket")["label"]

print(pd.read_csv("labelled.csv").head(3).to_string(index=False))

# %% [markdown]
# ## Text to features
#
# An encoder turns each text into 384 numbers; texts that mean nearly the same lie close together. This one,
# MiniLM, came with pip. Features are a DataFrame with the same index as the messages, so nothing can get
# out of order.

# %%
from cual import Agent
from cual.encoders import make

encoder = make("all-minilm-l6-v2")


def features(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(encoder.encode(frame["text"].tolist()), index=frame.index)


labelled = pd.read_csv("labelled.csv", index_col="ticket")
export = pd.read_csv("export.csv", index_col="ticket")
agent = Agent.fit(features(labelled), labelled["label"], encoder=encoder.fingerprint)
print(agent)
print(len(labelled), "labelled messages,", len(export), "new ones")

# %% [markdown]
# `fit` checks that features and labels have the same index. The agent keeps the fingerprint of the encoder
# and refuses features of another one.
#
# ## Answering questions
#
# We allow 15 questions. `query.ids` are tickets, and `query.suggestions` what the agent would say itself.
# On your own data you would answer with `input()`, or in the terminal, or on the page; here `wanted`
# answers.

# %% ± lines
X = features(export)
task = agent.adapt(X, budget=15)
while query := task.ask():
    for ticket, zone in zip(query.ids, query.zones):
        print(f"{ticket}  {zone:9}  {export.loc[ticket, 'text'][:55]:55}  {wanted[ticket]}")
    task.tell(query.id, wanted[list(query.ids)].to_dict())
adapted = task.finish()

# %% [markdown]
# Some questions are about messages that do not look *novel*: the agent makes sure of what it believes to
# know.

# %%
found = sorted(set(adapted.classes_) - set(agent.classes_))
print(f"{task.labels_used} answers; new intents: {', '.join(found)}")

# %% [markdown]
# ## A label for every message
#
# The result is a table again: what each message wants, how sure that is, and whether it still looks like
# nothing known. `calibrated` probabilities are fitted to labels that were held out, so that 0.9 means nine
# in ten, as well as so few labels can tell.

# %%
result = export.assign(
    intent=adapted.predict(X),
    sure=adapted.calibrated(X).max(axis=1).round(2),
    novel=adapted.novelty(X) > adapted.threshold,
)
result.to_csv("labels.csv")

# %% [markdown]
# How good is it? We look only at messages that nobody was asked about, with the old agent and with the new
# one. (The new one has looked at them, too, and learned from those that it was sure of; but nobody told it
# what they are. [The first tutorial](satellites.md) tests on data that took no part in anything.)

# %% ± 0.05
unseen = export.index.difference(task.answers)
of_new = wanted[unseen].isin(NEW)
for title, intent in (("before", pd.Series(agent.predict(X), index=X.index)), ("after", result["intent"])):
    right = intent[unseen] == wanted[unseen]
    print(f"{title:6}  known intents {right[~of_new].mean():.2f}, new intents {right[of_new].mean():.2f}")

# %% [markdown]
# A map shows what happened: the messages of the export by their two main directions, coloured by what the
# agent says, with a ring around those that were asked about.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

centred = X - X.mean()
flat = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for intent in adapted.classes_:
    rows = flat[result["intent"] == intent]
    axes.scatter(rows[0], rows[1], s=14, label=intent)
ringed = flat.loc[list(task.answers)]
axes.scatter(ringed[0], ringed[1], s=60, facecolors="none", edgecolors="black", label="asked")
axes.set(xticks=[], yticks=[])
axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
Path("figures").mkdir(exist_ok=True)
kind = "banking77" if "INTENTS" in os.environ else "phrases"
figure.savefig(f"figures/intents-{kind}.svg")

# %% [markdown]
# ![The messages on a map, coloured by intent](figures/intents-phrases.svg)
#
# ## The same on the command line
#
# ```sh
# cual fit labelled.csv -o v0.agent --id ticket
# cual ask v0.agent export.csv --task t --budget 15 -o 1.csv --id ticket    # fill in the column label
# cual tell t 1.csv                                                         # then ask again: 2.csv, ...
# cual tell t 4.csv -o v1.agent --export labels.csv                         # the last answers make the agent
# ```
#
# ## Real messages
#
# [Banking77](https://huggingface.co/datasets/PolyAI/banking77) has 13,083 messages to a bank (CC BY 4.0).
# Saved as a CSV with the columns `text` and `label`, all splits, it goes through the same script: the first
# 100 messages of each of our five intents.

# %% [again] ± 0.1 INTENTS=../shared/data/banking77.csv.gz

# %% [markdown]
# ![Messages of Banking77 on a map](figures/intents-banking77.svg)
#
# ## Where to go on
#
# - [Questions as files](../terminal.md#questions-as-a-file): for people who label in a spreadsheet
# - [Encoders](../encoders.md): a larger model, or one of another language (`hf:NAME`)
# - [Models elsewhere](../models.md): the agent as ONNX, as a scikit-learn estimator, as an MLflow model
# - [Watching a live classifier](watching.md): messages that come one by one, every day

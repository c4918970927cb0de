# %% [markdown]
# # Watching a live classifier
#
# **The problem.** A classifier is in production. One day people begin to send something that it was never
# taught, and it goes on giving confident answers. You want to hear of it the same hour, and to repair it
# without collecting a new dataset.
#
# **What we do.** We run the service on this machine and send it messages as a program of yours would. In
# the afternoon a new kind of message appears. The service alerts us, shows what the new messages have in
# common, and proposes an adaptation; we answer its questions, and the next version knows the new kind.
#
# ```sh
# pip install 'cual[serve]' matplotlib
# ```
#
# ## Messages
#
# The messages are put together from phrases, so that this runs anywhere: questions about cards and about
# the weather in the morning, and from noon on recipes as well, one message in three.

# %%
import csv
import random

PHRASES = {
    "card": "where is my {} card {}|my {} card was lost {}|can I get a {} card {}|the {} card is blocked {}",
    "weather": "will it rain in {} {}|how warm is {} {}|is there snow near {} {}|strong wind in {} {}",
    "recipe": "how long do I bake {} {}|which sauce goes with {} {}|can I fry {} {}|a soup of {} {}",
}
WORDS = {
    "card": "credit|blue|new|old|bank|black|gold|travel|debit|second|virtual",
    "weather": "Madrid|Oslo|Kyoto|Berlin|Lima|Cairo|Quito|Turin|Accra|Perth|Bern",
    "recipe": "potatoes|onions|rice|garlic|cheese|mushrooms|carrots|salmon|beans|leek",
}
ENDS = "today|on Monday|in May|this week|tonight|at noon|again|for two|by Friday|soon"


def message(kind: str, number: int) -> str:
    rng = random.Random(f"{kind} {number}")
    phrase, word, end = (rng.choice(choices.split("|")) for choices in (PHRASES[kind], WORDS[kind], ENDS))
    return phrase.format(word, end)


with open("labelled.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["text", "label"])
    writer.writerows((message(kind, n), kind) for kind in ("card", "weather") for n in range(250))

draw = random.Random(0)
morning = [(draw.choice(["card", "weather"]), 1000 + n) for n in range(300)]
kinds = ["card", "weather", "recipe"]
afternoon = [(draw.choice(kinds), 2000 + n) for n in range(300)]

# %% [markdown]
# ## The service
#
# `cual serve` makes the workspace, a folder, and prints where it listens. `cual invite --api` gives a token
# for a program: one for us, who set things up, and one for the help desk, which may send messages and
# nothing else. In production all of that is typed once; see [the service](../service.md).

# %%
import atexit
import subprocess

log = open("service.log", "w")
service = subprocess.Popen(["cual", "serve", "workspace"], stdout=subprocess.PIPE, stderr=log, text=True)
atexit.register(service.terminate)
url = service.stdout.readline().split()[0]


def token(name: str, role: str) -> str:
    invite = ["cual", "invite", "workspace", name, "--role", role, "--api"]
    return subprocess.run(invite, capture_output=True, text=True, check=True).stdout.strip()


# %% [markdown]
# The client talks to it. The table goes up, and the service makes an agent of it, with an encoder for text
# of its own. Of messages that look known, only a fifth is kept: nobody needs all of them. And we say what
# an adaptation may cost: 20 questions at most, each of which must settle 3 messages or more.

# %%
import cual

client = cual.Client(url, token("us", "admin"), timeout=300)
help_desk = cual.Client(url, token("help desk", "sender"), timeout=300)
agent = client.make_agent("help desk", files="labelled.csv")
client.set_inbox_policy(agent, known_share=0.2)
client.set_watching(agent, most_questions=20, least_gain=3)
print(agent.name, agent.classes, "version", agent.version)

# %% [markdown]
# ## Somebody who listens
#
# Alerts go to a webhook: an address of yours that gets a signed JSON body. Here it is a few lines of Python
# on this machine that check the signature and keep what they hear; yours would write to your chat or call
# somebody.

# %%
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from cual.client import check_webhook

heard: list[dict] = []
secret = "a secret that you make up: at least 16 characters"


class Listener(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        heard.append(check_webhook(secret, body, self.headers["Cual-Signature"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


listener = HTTPServer(("127.0.0.1", 0), Listener)
threading.Thread(target=listener.serve_forever, daemon=True).start()
client.add_webhook(agent, f"http://127.0.0.1:{listener.server_port}/", ["novelty.alert"], secret)

# %% [markdown]
# ## A quiet morning, and an afternoon
#
# `send` is what your program calls in place of its own `predict`: each message gets a label, and the
# service keeps what may be worth looking at. A verdict is *known*, *unsure* or *unlike anything known*.


# %%
def send(messages: list[tuple[str, int]]) -> list[bool]:
    """Send messages, 25 at a time; which of them are unlike anything known."""
    unlike: list[bool] = []
    for start in range(0, len(messages), 25):
        said = help_desk.send(agent, [message(*each) for each in messages[start : start + 25]])
        unlike += [verdict.verdict == "unlike anything known" for verdict in said]
    return unlike


first = help_desk.send(agent, ["where is my gold card", "how warm is Lima today", "can I fry leek in butter"])
for verdict in first:
    print(f"{verdict.label:8} {verdict.verdict}")

# %% [markdown]
# Note the last one: a classifier must name *some* class. That is why the verdict matters more than the
# label.

# %% ± 12
unlike_morning, unlike_afternoon = send(morning), send(afternoon)
print(f"morning:   {sum(unlike_morning)} of {len(morning)} unlike anything known")
print(f"afternoon: {sum(unlike_afternoon)} of {len(afternoon)} unlike anything known")

# %% [markdown]
# ## The alert
#
# A few known messages always look novel: false alarms. The alert is a sequential test that knows how many
# of these to expect, so that a false *alert* comes at most once in 100,000 known samples. Counts are
# written every five seconds.

# %% ± 12
import time


def until(condition, seconds: float = 600):
    """What the condition returns, as soon as it is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come: see service.log"
        time.sleep(0.2)
    return found


alert = until(lambda: heard)[0]
after = alert["data"]["after"] - len(first)
recipes = sum(kind == "recipe" for kind, _ in afternoon[: after - len(morning)])
print(f"{alert['event']} {alert['data']['state']} after {after} messages, {recipes} of them recipes")

# %% [markdown]
# This is what the agent's page *Watching* shows, drawn by hand: the share of messages unlike anything
# known, and when we were told.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

unlike = np.array(unlike_morning + unlike_afternoon)
share = [unlike[max(0, n - 50) : n].mean() for n in range(1, len(unlike) + 1)]
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.plot(share)
axes.axvline(len(morning), color="grey", linestyle=":", label="recipes begin")
axes.axvline(after, color="black", linestyle="--", label="alert")
axes.set(xlabel="messages", ylabel="unlike, of the last 50", ylim=(0, 1))
axes.legend()
Path("figures").mkdir(exist_ok=True)
figure.savefig("figures/watching.svg")

# %% [markdown]
# ![The share of messages unlike anything known rises at noon; then the alert comes](figures/watching.svg)
#
# ## What is it?
#
# The service groups what waits, every half a minute. Groups that are worth their questions make a proposal:
# so many questions, which would probably settle so many messages. Sauces and soups may be two groups; that
# is for us to say.

# %% ± 15
waiting = client.inbox(agent).by_verdict["unlike anything known"]
until(lambda: (client.watching(agent)["groups"] or {}).get("waiting") == waiting)
proposal = until(lambda: client.watching(agent)["proposal"])
groups = client.watching(agent)["groups"]["groups"]
print(f"{waiting} messages wait; {sum(group['size'] for group in groups)} of them form groups: {len(groups)}")
print(f"proposed: {proposal['questions']} questions, which would settle {proposal['settled']} messages")

# %% [markdown]
# Some of the largest group, the middle one first:

# %% ± lines
for example in groups[0]["examples"][:3]:
    print(client.get(f"/api/agents/{agent.id}/watching/texts/{example['sample']}")["text"])

# %% [markdown]
# ## The adaptation
#
# We begin what is proposed: all that waits becomes a pool, and questions come. A person would answer them
# on the page (`/adaptations/1`); here a program does, with the same `ask` and `tell` as in Python.

# %% ± 10
kind_of = {message(*each): each[0] for each in morning + afternoon} | {
    "where is my gold card": "card",
    "how warm is Lima today": "weather",
    "can I fry leek in butter": "recipe",
}
client.begin_proposed(agent)
proposal = until(lambda: (now := client.watching(agent)["proposal"]) and now["adaptation"] and now)
task = client.adaptation(proposal["adaptation"])
n_answers = 0
while query := task.ask():
    texts = {id: client.text(proposal["pool"], row) for id, row in zip(query.ids, query.rows)}
    task.tell(query.id, {id: kind_of[text] for id, text in texts.items()})
    n_answers += len(texts)
agent = task.finish()
print(f"{n_answers} answers; {agent.name} knows {', '.join(agent.classes)}")

# %% [markdown]
# ## Did it help?
#
# We try both versions on messages that were neither in the table nor sent.

# %% ± 0.05
seen = {row["text"] for row in csv.DictReader(open("labelled.csv"))} | set(kind_of)
fresh = {text: kind for kind in PHRASES for n in range(9000, 9200) if (text := message(kind, n)) not in seen}
y = np.array(list(fresh.values()))
for version in (0, 1):
    right = client.predict(agent, list(fresh), version=version) == y
    known, new = right[y != "recipe"], right[y == "recipe"]
    print(f"version {version}: {known.mean():.2f} of cards and weather are right, {new.mean():.2f} of recipes")

# %% [markdown]
# Version 1 predicts from now on; one call, `client.roll_back`, or a button on the page goes back to version
# 0. Where you would rather compare first, new versions begin as candidates and predict in the shadow of the
# live one ([rollout](../rollout.md)).

# %%
service.terminate()
service.wait()

# %% [markdown]
# ## Where to go on
#
# - [Watching](../watching.md): what exactly is counted, when alerts come, drift, Prometheus and Grafana
# - [Samples that are sent](../ingest.md): what is kept, what is not, `cual watch FOLDER` for files
# - [Which version predicts](../rollout.md): candidates, shadows, the way back
# - [A team on the page](team.md): people who answer the questions

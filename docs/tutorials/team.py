# %% [markdown]
# # A team on the page
#
# **The problem.** The people who know what is in the pictures do not write Python. There are several of
# them, they sit elsewhere, and they do not always agree.
#
# **What we do.** Mia runs the service and invites Ada and Ben. Both are asked the same questions in their
# browsers, Mia settles what they disagree on, looks at what the agent labelled without asking, and makes
# the next version.
#
# ```sh
# pip install 'cual[serve]' playwright && playwright install chromium
# ```
#
# Only this script needs playwright: it is our hands and eyes in the browser, presses the keys that a person
# would press, and takes the screenshots below.
#
# ## Mia sets it up
#
# `cual serve` makes a workspace and prints an address by which Mia signs in. She could do all that follows
# on the page; here she uses the client. The built-in example is an agent that knows the handwritten digits
# 0 to 4, and a pool in which 5 to 9 turn up as well. Each question is put to two people (`overlap=2`), and
# each answer costs one label of the budget.

# %%
import atexit
import subprocess

import cual

log = open("service.log", "w")
service = subprocess.Popen(["cual", "serve", "workspace"], stdout=subprocess.PIPE, stderr=log, text=True)
atexit.register(service.terminate)
url = service.stdout.readline().split()[0]


def invite(*options: str) -> str:
    command = ["cual", "invite", "workspace", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


mia = cual.Client(url, invite("mia", "--role", "admin", "--api"))
agent = mia.make_example()
(pool,) = mia.pools()
task = mia.start(agent, pool, budget=48, overlap=2)
print(f"{agent.name!r} knows {', '.join(agent.classes)}; {pool.size} pictures wait")

# %% [markdown]
# ## Ada opens her invitation
#
# An invitation is an address. It works once, signs Ada in, and her browser remembers her. She may answer;
# she may not start or finish anything: that is for administrators.

# %%
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

digits = load_digits()
address = invite("ada", "--role", "annotator")
chromium = sync_playwright().start().chromium
browser = chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
atexit.register(browser.close)


def sign_in(address: str):
    page = browser.new_page(viewport={"width": 1180, "height": 720})
    page.set_default_timeout(120_000)
    page.goto(address)
    page.click("form[action='/sign-in'] button")
    page.wait_for_url(f"{url}/")
    return page


def screenshot(page, name: str) -> None:
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")
    Path("figures").mkdir(exist_ok=True)
    page.screenshot(path=f"figures/team-{name}.png", animations="disabled")


page = sign_in(address)
page.goto(f"{url}/adaptations/{task.id}")
page.wait_for_selector("[data-tile] img")
screenshot(page, "questions")

# %% [markdown]
# ![The board of questions in Ada's browser](figures/team-questions.png)
#
# The questions lie on a board, grouped by what the agent takes them for. Ada needs no mouse: arrows move,
# `=` accepts the suggestion, digits stand for classes, and typing a name finds a class or makes a new one.
# She answers the first three. The script reads the digit off the data; Ada reads it off the picture.

# %%
truth = {f"digit-{number:04d}": str(digit) for number, digit in enumerate(digits.target)}
samples = {row["id"]: row["sample"] for row in mia.get(f"/api/adaptations/{task.id}/questions")}


def answer(page) -> None:
    """Type what the picture with the focus shows, and wait until the service has taken it."""
    page.wait_for_function("() => document.activeElement?.dataset?.tile")
    tile = page.evaluate("document.activeElement.dataset.tile")
    label = truth[samples[int(tile)]]
    key = page.query_selector(f"[data-class][data-name='{label}'] kbd")
    if key:
        page.keyboard.press(key.inner_text().strip())
    else:  # nobody has named this class yet: type it, and say that it is new
        page.keyboard.type(label)
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.activeElement?.closest('[data-proposal]')")
        while page.evaluate("document.activeElement.dataset.create") != "now":
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    page.wait_for_function("(id) => !document.querySelector(`[data-tile='${id}']`)", arg=tile)


for _ in range(3):
    answer(page)
print(task.state.status)

# %% [markdown]
# ## Ben reads some digits differently, and Mia settles it
#
# To keep this short, both give the other answers with the client, each with a token of their own. `ask`
# lends questions to one person at a time, and nobody is asked the same twice. Ben takes every 8 for a 3.
#
# *Disputes* lists the questions on which people differ. Whoever is a party to a disagreement does not
# settle it; Mia is not, so she decides. A round ends with its last answer, and then the learner goes on
# with what it has; so Ben keeps one question open until Mia is done.

# %%
ada, ben = (cual.Client(url, invite(name, "--api")).adaptation(task.id) for name in ("ada", "ben"))
page = sign_in(invite("mia"))


def settle() -> None:
    """Mia looks at what people disagree on, and says what counts."""
    disputes = task.disputes()
    if disputes and not Path("figures/team-disputes.png").exists():
        page.goto(f"{url}/adaptations/{task.id}/disputes")
        page.wait_for_selector("[data-tile] img")
        screenshot(page, "disputes")
    for question in disputes:
        said = {answer["person"]: answer["label"] for answer in question["answers"]}
        print(f"{question['sample']}: {said}, Mia says {truth[question['sample']]}")
        task.settle(question["id"], truth[question["sample"]])


while query := ada.ask():
    ada.tell(query.id, {id: truth[id] for id in query.ids})
    query = ben.ask()
    last, *others = sorted(query.ids, key=lambda id: truth[id] == "8")
    ben.tell(query.id, {id: truth[id].replace("8", "3") for id in others})
    settle()
    ben.tell(query.id, {last: truth[last].replace("8", "3")})
print(task.state.status)

# %% [markdown]
# ![Questions on which Ada and Ben disagree](figures/team-disputes.png)
#
# The figure beside each picture is what both answers come to together. Two people alone cannot tell who of
# them is right, and the estimate may well be wrong, as it is here. That is what Mia is for.
#
# The page *Team* says how well people agree: 1 is always, 0 is what chance would do. One class on which two
# people differ is best talked about, not voted on.

# %%
agreement = task.agreement()
print(f"Krippendorff's alpha {agreement['alpha']:.2f}")

# %% [markdown]
# ## Mia reviews what nobody was asked about
#
# The agent has labelled a part of the pool by itself. *Review* shows that, most doubtful first: `=` says
# that it is right, `-` that it is wrong. Neither costs anything. Mia looks at the thirty most doubtful ones.

# %%
page.goto(f"{url}/adaptations/{task.id}/review")
page.wait_for_selector("[data-tile] img")
screenshot(page, "review")

# %% ± 6
believed = task.pseudo_labels()
right = {row["row"]: row["label"] == truth[row["sample"]] for row in believed[:30]}
task.review({row: "confirm" if is_right else "reject" for row, is_right in right.items()})
print(
    f"{len(believed)} labelled without asking; of the 30 most doubtful, Mia rejects {30 - sum(right.values())}"
)

# %% [markdown]
# ![What the agent labels without asking, most doubtful first](figures/team-review.png)
#
# ## The next version
#
# *Finish* makes it. Version 0 stays, and the page *History* has the way back. We try both on the digits
# that took no part in anything.

# %% ± 0.03
import numpy as np

from cual.serve.jobs.example import demo_data

agent = task.finish()
taken = demo_data()
fresh = np.setdiff1d(np.arange(len(digits.target)), [*taken.first, *taken.pool])
y = digits.target[fresh].astype(str)
for version in (0, 1):
    right = mia.predict(agent, digits.data[fresh] / 16, version=version) == y
    print(f"version {version}: digits 0 to 4 {right[y < '5'].mean():.2f}, 5 to 9 {right[y >= '5'].mean():.2f}")

# %%
page.goto(f"{url}/agents/{agent.id}")
page.wait_for_selector("[data-version='1']")
screenshot(page, "history")
browser.close()
service.terminate()
service.wait()

# %% [markdown]
# ![The history of the agent, with both versions](figures/team-history.png)
#
# 48 answers about 24 pictures taught it five new digits. Was asking two people worth it?
# [People](../people.md) has measured that: with so few labels one answer about twice as many pictures is
# usually worth more, unless somebody settles the disagreements, as Mia did.
#
# ## Where to go on
#
# - [The service](../service.md): your own pictures and tables, TLS, PostgreSQL, backups, roles
# - [Several people](../people.md): overlap, consensus, agreement, gold questions
# - [Review](../review.md): what it costs, and in which order things are shown
# - [Label Studio](../label-studio.md), if your team labels there
# - [Watching a live classifier](watching.md): where the next pool comes from

"""Keys and time per answer of a scripted annotator on the real page in Chromium; and classes made by typos.

    python benchmarks/annotating.py [--classes 10,60,150] [--answers 60] [--src src]

Two kinds of annotator answer the questions of one adaptation each, always with the right class:

    looks      presses the key that the page shows for the class, accepts a right suggestion, or types letters
               until the class is marked, then Enter
    hurries    types the whole name without looking, a typo in every third, then Enter; looks up only when the
               page asks which class is meant

`--src` takes the page of another checkout, such as that of an earlier commit (`git worktree add`). Every press
counts as a key. The time is that of the page, from the first key until the question is gone: nobody thinks.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
MAKE = """
import json, sys
from pathlib import Path
from many_classes import make_workspace
workspace, truth = make_workspace(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
print(json.dumps(truth))
"""
MARKED = "document.querySelector('.class[aria-selected=true]')?.dataset.name"


@dataclass
class Tally:
    """What the answers took."""

    keys: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    by: dict[str, int] = field(default_factory=dict)


class Annotator:
    """Hands on the keyboard of one page."""

    def __init__(self, page: Any, truth: list[str], seed: int) -> None:
        self._page, self._truth, self._random = page, truth, random.Random(seed)
        self._pressed = 0
        self._n = 0
        self.tally = Tally()

    def press(self, key: str) -> None:
        self._page.keyboard.press(key)
        self._pressed += 1

    def type(self, text: str) -> None:
        for letter in text:
            self._page.keyboard.type(letter)
            self._pressed += 1

    def look(self, script: str) -> Any:
        return self._page.evaluate(script)

    def wait(self, script: str, argument: Any = None) -> Any:
        return self._page.wait_for_function(script, arg=argument, timeout=60_000).json_value()

    @property
    def asks_first(self) -> bool:
        """Whether this page asks before it makes a class; earlier ones did not, and opened the list by /."""
        return bool(self.look("document.querySelector('[data-create=ask]') !== null"))

    def answer(self, tile: str, hurries: bool) -> None:
        self._pressed, self._n, start = 0, self._n + 1, time.perf_counter()
        name = self._truth[int(self.look("document.activeElement.querySelector('img').src.split('/').pop()"))]
        by = self._hurried(name) if hurries else self._looked(name)
        self.wait("(id) => !document.querySelector(`[data-tile='${id}']`)", tile)
        self.tally.seconds.append(time.perf_counter() - start)
        self.tally.keys.append(self._pressed)
        self.tally.by[by] = self.tally.by.get(by, 0) + 1

    def _looked(self, name: str) -> str:
        key = self.look(f"document.querySelector(`.class[data-name='{name}'] kbd`)?.innerText.trim()")
        if key:
            self.press(key)
            return "key"
        group = self.look("document.activeElement.closest('[data-group]').querySelector('h2').innerText")
        if self.asks_first and group == f"Looks like {name}":
            self.press("=")
            return "accept"
        known = self.look(f"document.querySelector(`.class[data-name='{name}']`) !== null")
        if not self.asks_first:
            self.press("/")
        for letter in name:
            self.type(letter)
            self._settled()
            if known and self.look(MARKED) == name:
                self.press("Enter")
                return "typed"
        self.press("Enter")
        if self.asks_first and not known:
            self._create()
        return "typed" if known else "created"

    def _hurried(self, name: str) -> str:
        known = self.look(f"document.querySelector(`.class[data-name='{name}']`) !== null")
        typed = self._typo(name) if self._n % 3 == 0 and known else name
        if not self.asks_first:
            self.press("/")
        self.type(typed)
        self.press("Enter")
        if not self.asks_first or (known and typed == name):
            return "typed"
        self._settled()
        if not self.wait("() => document.activeElement?.closest('[data-proposal], [data-tile]') && true"):
            return "typed"
        if self.look("document.activeElement.closest('[data-proposal]') === null"):
            return "typed"  # the typo was found all the same
        if not known:
            self._create()
            return "created"
        there = f"[data-proposal] [data-class][data-name='{name}']"
        if self.look(f"document.querySelector(`{there}`) === null"):
            self.press("Escape")
            self.wait("() => document.activeElement.matches('[data-find]')")
            self.type(name)
            self.press("Enter")
            return "typed again"
        while self.look("document.activeElement.dataset.name") != name:
            self.press("ArrowDown")
        self.press("Enter")
        return "chosen when asked"

    def _create(self) -> None:
        self.wait("() => document.activeElement?.closest('[data-proposal]') && true")
        while self.look("document.activeElement.dataset.create") != "now":
            self.press("ArrowDown")
        self.press("Enter")

    def _settled(self) -> None:
        """Until the list shows what was typed."""
        if self.asks_first:
            self.wait(
                "() => { const typed = document.querySelector('[data-typed]')?.textContent;"
                " const find = document.querySelector('[data-find]').value.trim();"
                " const asked = document.querySelector('[data-proposal]')?.checkVisibility();"
                " return !find || typed === find || asked; }"
            )

    def _typo(self, name: str) -> str:
        place = self._random.randrange(1, len(name) - 1)
        return self._random.choice(
            [
                name[:place] + name[place + 1 :],
                name[:place] + name[place + 1] + name[place] + name[place + 2 :],
                name[:place] + self._random.choice("aeilnorst") + name[place + 1 :],
                name[:place] + name[place] + name[place:],
            ]
        )


def measure(browser: Any, n: int, answers: int, hurries: bool, folder: Path) -> None:
    import json

    from many_classes import NEW, names
    from page.conftest import Service, free_port

    command = [sys.executable, "-c", MAKE, str(folder / "workspace"), str(n), str(answers)]
    truth = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    service = Service(folder / "workspace", free_port()).start()
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    try:
        page = context.new_page()
        page.goto(service.address)
        page.goto(f"{service.url}/adaptations/1")
        annotator = Annotator(page, truth, seed=n)
        over = "[...document.querySelectorAll('h2')].some((h) => h.innerText === 'No more questions') && 'over'"
        ready = f"() => document.activeElement?.dataset?.tile ?? ({over})"
        while (tile := annotator.wait(ready)) != "over":
            annotator.answer(tile, hurries)
        record = service.call("GET", "/adaptations/1")
        questions = service.call("GET", "/adaptations/1/questions")
    finally:
        context.close()
        service.stop()
    right = {*names(n), *NEW}
    made = [name for name in record["suggested_classes"] if name not in right]
    wrong = sum(q["effective"] != truth[q["row"]] for q in questions if q["answers"])
    tally = annotator.tally
    keys, seconds = sum(tally.keys) / len(tally.keys), sorted(tally.seconds)[len(tally.seconds) // 2]
    ways = ", ".join(f"{way} {count}" for way, count in sorted(tally.by.items()))
    print(
        f"{n:4} classes  {'hurries' if hurries else 'looks':8} {len(tally.keys):4} answers  {keys:5.2f} keys  "
        f"{1000 * seconds:5.0f} ms (median)  wrong answers {wrong}, wrong classes {len(made)}  ({ways})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--classes", default="10,60,150")
    parser.add_argument("--answers", type=int, default=60)
    parser.add_argument("--src", type=Path, default=TESTS.parent / "src")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = f"{options.src.resolve()}{os.pathsep}{TESTS}"
    sys.path.insert(0, str(TESTS))
    from playwright.sync_api import sync_playwright

    from page.conftest import CHROMIUM, FLAGS

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for n in (int(part) for part in options.classes.split(",")):
            for hurries in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    measure(browser, n, options.answers, hurries, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()

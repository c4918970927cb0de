// The keyboard of a board of tiles, in the browser because fingers are faster than the network: moves the focus,
// selects, and tells the server what was meant for which tiles. It draws nothing and knows nothing of classes or
// answers; a tile that was acted on is dimmed until the server takes it away or restores it. Which classes fit what
// is typed, the server says; Enter waits for that, so that it never takes what was marked a letter earlier.
//
// What it expects on the page: [data-board] > [data-group] > [data-tile=id], [data-verb=name] buttons,
// [data-class=index] options, [data-create=ask|now], [data-find] (the input), [data-proposal] (the question which
// class is meant), [data-armed] (the question whether to answer many), and [data-said] (a live region). The verb
// "look" is no act: the tile gets an event of that name, which looking.js hears. A finger held on a tile is the event
// "hold" of it, which holding.js sends.

const ARROWS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: "up", ArrowDown: "down" };

export default {
  props: {
    verbs: { type: Object, default: () => ({}) }, // key: verb
    classes: { type: Object, default: () => ({}) }, // key: index of a class
    leaving: { type: Array, default: () => [] }, // verbs after which a tile leaves the board
    onward: { type: Array, default: () => [] }, // verbs after which it stays, and the focus goes on to the next
    asking: { type: Array, default: () => [] }, // verbs that ask for Enter when they are meant for several tiles
    texts: { type: Object, default: () => ({}) }, // what is said, with {n} and {what} in it
  },
  render: () => null,
  mounted() {
    this.current = null;
    this.place = 0;
    this.serial = 0; // of what was typed last
    this.shown = 0; // of what the list shows
    this.entered = false; // Enter was pressed before the list showed what was typed
    this.armed = null; // what Enter would do to several tiles
    this.byFinger = false; // what was done last was done by touch
    this.onKey = (event) => this.key(event);
    this.onClick = (event) => this.click(event);
    this.onHold = (event) => this.hold(event.target.closest("[data-tile]"));
    this.onInput = (event) => event.target.matches?.("[data-find]") && this.filter();
    this.onFocus = (event) => {
      const tile = event.target.closest?.("[data-tile]");
      if (tile) this.mark(tile);
    };
    document.addEventListener("keydown", this.onKey);
    document.addEventListener("click", this.onClick);
    document.addEventListener("hold", this.onHold);
    document.addEventListener("input", this.onInput);
    document.addEventListener("focusin", this.onFocus);
    this.watcher = new MutationObserver(() => this.settle());
    this.watcher.observe(document.getElementById("app"), { childList: true, subtree: true });
    this.settle();
  },
  unmounted() {
    document.removeEventListener("keydown", this.onKey);
    document.removeEventListener("click", this.onClick);
    document.removeEventListener("hold", this.onHold);
    document.removeEventListener("input", this.onInput);
    document.removeEventListener("focusin", this.onFocus);
    this.watcher.disconnect();
  },
  methods: {
    // -- tiles -------------------------------------------------------------------------------------------------
    tiles() {
      return [...document.querySelectorAll("[data-board] [data-tile]:not(.leaving)")];
    },
    selected() {
      return this.tiles().filter((tile) => tile.ariaSelected === "true");
    },
    targets() {
      const chosen = this.selected();
      return chosen.length || !this.current ? chosen : [this.current];
    },
    select(tile, on = true) {
      this.disarm(); // what was asked about is no longer what is selected
      tile.ariaSelected = String(on);
    },
    mark(tile) {
      for (const other of document.querySelectorAll('[data-tile][tabindex="0"]')) other.tabIndex = -1;
      this.current = tile;
      this.place = tile ? this.tiles().indexOf(tile) : 0;
      if (tile) tile.tabIndex = 0;
    },
    go(tile) {
      if (!tile) return;
      this.mark(tile);
      tile.focus();
      tile.scrollIntoView({ block: "nearest" });
    },
    focusTile(id) {
      this.go(document.querySelector(`[data-tile="${CSS.escape(id)}"]`));
    },
    restore(ids) {
      for (const id of ids) {
        document.querySelector(`[data-tile="${CSS.escape(id)}"]`)?.classList.remove("leaving");
      }
      if (ids.length) this.focusTile(ids[0]);
    },
    // Tiles come and go with the server's updates: there is always one that Tab reaches, and a focus that was on
    // a tile that went moves to the one in its place.
    settle() {
      if (this.current?.isConnected && !this.current.classList.contains("leaving")) return;
      const tiles = this.tiles();
      const next = tiles[Math.min(this.place, tiles.length - 1)] ?? null;
      const lost = document.activeElement === document.body || this.current?.contains(document.activeElement);
      if (next && lost && !this.covered()) this.go(next);
      else this.mark(next);
    },
    neighbour(arrow) {
      const tiles = this.tiles();
      const at = tiles.indexOf(this.current);
      if (at < 0) return tiles[0];
      if (typeof ARROWS[arrow] === "number") return tiles[at + ARROWS[arrow]];
      const here = this.current.getBoundingClientRect();
      const down = ARROWS[arrow] === "down";
      let best = null;
      for (const tile of tiles) {
        const there = tile.getBoundingClientRect();
        const dy = down ? there.top - here.top : here.top - there.top;
        if (dy < 4) continue;
        const far = dy * 4 + Math.abs(there.left - here.left);
        if (!best || far < best.far) best = { tile, far };
      }
      return best?.tile;
    },
    move(arrow, extend) {
      const next = this.neighbour(arrow);
      if (!next) return;
      if (extend && this.current) {
        const tiles = this.tiles();
        const [from, to] = [tiles.indexOf(this.current), tiles.indexOf(next)].sort((a, b) => a - b);
        for (const tile of tiles.slice(from, to + 1)) this.select(tile);
        this.tell(this.texts.selected.replace("{n}", this.selected().length));
      }
      this.go(next);
    },
    all() {
      const group = this.current?.closest("[data-group]");
      if (!group) return;
      const tiles = [...group.querySelectorAll("[data-tile]:not(.leaving)")];
      const on = tiles.some((tile) => tile.ariaSelected !== "true");
      for (const tile of tiles) this.select(tile, on);
      this.tell(this.texts.selected.replace("{n}", this.selected().length));
    },
    toggle(tile) {
      this.select(tile, tile.ariaSelected !== "true");
      this.tell(this.texts.selected.replace("{n}", this.selected().length));
    },
    hold(tile) {
      if (this.covered()) return;
      this.byFinger = true;
      this.toggle(tile);
      this.go(tile);
    },

    // -- acting ------------------------------------------------------------------------------------------------
    // What is meant for several tiles is said first, and done when Enter says so.
    meant(verb, more = {}, words = verb) {
      if (verb === "look") return this.current?.dispatchEvent(new CustomEvent("look", { bubbles: true }));
      const n = this.targets().length;
      if (n < 2 || !this.asking.includes(verb)) return this.act(verb, more);
      const several = this.byFinger ? this.texts.severalByFinger : this.texts.several;
      const text = several.replace("{n}", n).replace("{what}", () => words);
      this.armed = { verb, more };
      const box = document.querySelector("[data-armed]");
      if (box) {
        box.querySelector("[data-armed-text]").textContent = text;
        box.hidden = false;
        box.scrollIntoView({ block: "nearest" });
      }
      this.tell(text);
    },
    disarm() {
      this.armed = null;
      const box = document.querySelector("[data-armed]");
      if (box) box.hidden = true;
    },
    fire() {
      const { verb, more } = this.armed;
      this.disarm();
      this.act(verb, more);
    },
    act(verb, more = {}) {
      this.disarm();
      if (!window.socket?.connected) {
        this.tell("Not connected: nothing was sent. Wait a moment.");
        return;
      }
      const targets = this.targets();
      const ids = targets.map((tile) => tile.dataset.tile);
      if (this.leaving.includes(verb) && ids.length) {
        const tiles = this.tiles();
        const last = tiles.indexOf(targets[targets.length - 1]);
        const rest = tiles.filter((tile) => !targets.includes(tile));
        const next = tiles.slice(last + 1).find((tile) => rest.includes(tile)) ?? rest[rest.length - 1];
        for (const tile of targets) {
          this.select(tile, false);
          tile.classList.add("leaving");
        }
        if (next) this.go(next);
        else {
          this.place = 0;
          document.activeElement?.blur();
        }
      }
      if (this.onward.includes(verb) && ids.length) {
        for (const tile of targets) this.select(tile, false);
        const tiles = this.tiles();
        const last = tiles.indexOf(targets[targets.length - 1]);
        this.go(tiles[last + 1] ?? tiles[last]);
      }
      this.$emit("act", { verb, ids, ...more });
    },
    key(event) {
      this.byFinger = false;
      if (event.altKey || event.isComposing || this.covered()) return;
      const at = document.activeElement;
      const control = event.ctrlKey || event.metaKey;
      if (at?.matches("[data-find]")) return control ? undefined : this.finding(event);
      if (at?.closest("[data-proposal]")) return control ? undefined : this.deciding(event);
      const tile = at?.closest("[data-tile]");
      if (!tile && at !== document.body && !at?.closest("[data-keys]")) return;
      if (at?.matches("input, textarea, select, [contenteditable]")) return;
      const plain = event.key.length === 1 && !event.shiftKey ? event.key.toLowerCase() : event.key; // Caps Lock
      const key = control ? `Control+${plain}` : plain;
      if (control && !(key in this.verbs)) return;
      if (this.armed && !event.repeat && (key === "Enter" || key === "Escape")) {
        event.preventDefault();
        return key === "Enter" ? this.fire() : this.disarm();
      }
      if (!["Shift", "Control", "Meta"].includes(key) && !event.repeat) this.disarm(); // whatever else is wanted, it is not that
      let handled = true;
      if (event.repeat && !(key in ARROWS)) handled = key.length === 1 || key in this.verbs; // held down: once
      else if (key in ARROWS && (tile || at === document.body)) this.move(key, event.shiftKey);
      else if (key === "Home" && tile) this.go(this.tiles()[0]);
      else if (key === "End" && tile) this.go(this.tiles().at(-1));
      else if (key === " " && tile) this.toggle(tile);
      else if (key === "Enter" && tile && !this.verbs.Enter) this.find();
      else if (key === "Enter" && !tile) handled = false;
      else if (key === "Escape") this.tiles().forEach((each) => this.select(each, false));
      else if (key === "/") this.find();
      else if (key in this.classes) this.answer(this.classes[key]);
      else if (this.verbs[key] === "all") this.all();
      else if (key in this.verbs) this.meant(this.verbs[key]);
      else {
        // Typing finds: the letter itself goes into the input, which has the focus when it arrives.
        handled = false;
        if (key.length === 1 || key === "Dead" || key === "Process") this.find("");
      }
      if (handled) event.preventDefault();
    },
    answer(index) {
      const name = document.querySelector(`[data-class="${index}"]`)?.dataset.name ?? "this class";
      this.meant("answer", { class: index }, name);
    },
    click(event) {
      this.byFinger = event.pointerType === "touch";
      const tile = event.target.closest?.("[data-board] [data-tile]");
      if (tile && !tile.classList.contains("leaving")) {
        if (event.shiftKey && this.current) {
          const tiles = this.tiles();
          const [from, to] = [tiles.indexOf(this.current), tiles.indexOf(tile)].sort((a, b) => a - b);
          for (const each of tiles.slice(from, to + 1)) this.select(each);
        } else this.toggle(tile);
        return this.go(tile);
      }
      const verb = event.target.closest?.("[data-verb]")?.dataset.verb;
      if (verb === "all") return this.all();
      if (verb === "find") return this.find();
      if (verb === "fire") return this.armed && this.fire();
      if (verb === "disarm") return this.disarm();
      if (verb) return this.meant(verb);
      const option = event.target.closest?.("[data-class], [data-create]");
      if (option) this.choose(option);
    },

    // -- the class list ----------------------------------------------------------------------------------------
    find(text) {
      const input = document.querySelector("[data-find]");
      if (!input) return;
      if (text !== undefined) input.value = text;
      input.focus();
      input.select();
      this.filter();
    },
    options() {
      return [...document.querySelectorAll("[data-class].class, [data-create=ask]")]
        .filter((option) => !option.hidden)
        .sort((a, b) => a.style.order - b.style.order || 0);
    },
    // Ask which classes fit what is typed; nothing typed shows all.
    filter() {
      const input = document.querySelector("[data-find]");
      if (!input) return;
      const text = input.value.trim();
      this.serial += 1;
      this.entered = false;
      if (text) {
        const ids = this.targets().map((tile) => tile.dataset.tile);
        return this.$emit("search", { serial: this.serial, text, ids });
      }
      this.shown = this.serial;
      this.$emit("search", { serial: this.serial, text, ids: [] }); // whoever asked which class was meant need not
      for (const option of document.querySelectorAll("[data-class].class")) {
        option.hidden = false;
        option.style.order = "";
      }
      const create = document.querySelector("[data-create=ask]");
      if (create) create.hidden = true;
      this.activate(null);
    },
    // The server's answer: [index, whether Enter may take it], the best first.
    found(serial, matches) {
      const input = document.querySelector("[data-find]");
      if (serial !== this.serial || !input) return;
      this.shown = serial;
      const place = new Map(matches.map(([index], i) => [String(index), i]));
      let exact = false;
      for (const option of document.querySelectorAll("[data-class].class")) {
        option.hidden = !place.has(option.dataset.class);
        option.style.order = place.get(option.dataset.class) ?? "";
        exact ||= option.dataset.name === input.value.trim();
      }
      const create = document.querySelector("[data-create=ask]");
      if (create) {
        create.hidden = exact;
        create.style.order = matches.length;
        create.querySelector("[data-typed]").textContent = input.value.trim();
      }
      this.activate(matches.length && matches[0][1] ? this.options()[0] : null);
      if (this.entered) this.enter();
    },
    activate(option) {
      for (const other of document.querySelectorAll("[data-class].class, [data-create=ask]")) other.ariaSelected = "false";
      const input = document.querySelector("[data-find]");
      if (option) {
        option.ariaSelected = "true";
        option.scrollIntoView({ block: "nearest" });
        input?.setAttribute("aria-activedescendant", option.id);
      } else input?.removeAttribute("aria-activedescendant");
    },
    finding(event) {
      const options = this.options();
      const at = options.findIndex((option) => option.ariaSelected === "true");
      if (event.key === "Escape") this.leave();
      else if (event.key === "ArrowDown") this.activate(options[Math.min(at + 1, options.length - 1)]);
      else if (event.key === "ArrowUp") this.activate(options[Math.max(at - 1, 0)]);
      else if (event.key === "Enter") !event.repeat && this.enter();
      else return;
      event.preventDefault();
    },
    enter() {
      if (this.shown !== this.serial) {
        this.entered = true;
        return;
      }
      const option = this.options().find((each) => each.ariaSelected === "true");
      if (option) this.choose(option);
      else this.propose();
    },
    // Nothing of that name: the server shows what is nearest, and asks whether it is new.
    propose() {
      const name = document.querySelector("[data-find]")?.value.trim();
      if (name) this.$emit("act", { verb: "propose", ids: [], name });
    },
    proposed() {
      const box = document.querySelector("[data-proposal]");
      const first = box?.querySelector("[data-first]") ?? box?.querySelector("[data-proposal-text]");
      first?.focus();
    },
    deciding(event) {
      const choices = [...document.querySelectorAll("[data-proposal] button")];
      const at = choices.indexOf(document.activeElement);
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") this.find();
      else if (step) choices[Math.max(0, Math.min(at + step, choices.length - 1))]?.focus();
      else if (!(event.key === "Enter" && event.repeat)) return;
      event.preventDefault();
    },
    choose(option) {
      if (option.dataset.create === "ask") return this.propose();
      const { class: index, name, create } = option.dataset;
      this.leave();
      if (index !== undefined) this.meant("answer", { class: Number(index) }, name);
      else if (create === "now") this.meant("answer", { name }, name);
    },
    leave() {
      const input = document.querySelector("[data-find]");
      if (input) input.value = "";
      this.filter();
      this.go(this.current);
    },

    // -- small things ------------------------------------------------------------------------------------------
    covered() {
      return document.querySelector(".q-dialog, .q-menu, dialog[open]") !== null;
    },
    tell(text) {
      const said = document.querySelector("[data-said]");
      if (said) said.textContent = text;
    },
  },
};

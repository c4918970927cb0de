// The keyboard of a board of tiles, in the browser because fingers are faster than the network: moves the focus,
// selects, filters the class list, and tells the server what was meant for which tiles. It draws nothing and knows
// nothing of classes or answers; a tile that was acted on is dimmed until the server takes it away or restores it.
//
// What it expects on the page: [data-board] > [data-group] > [data-tile=id], [data-verb=name] buttons,
// [data-class=index] options, [data-create], [data-find] (the input), and [data-said] (a live region).

const ARROWS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: "up", ArrowDown: "down" };

export default {
  props: {
    verbs: { type: Object, default: () => ({}) }, // key: verb
    classes: { type: Object, default: () => ({}) }, // key: index of a class
    leaving: { type: Array, default: () => [] }, // verbs after which a tile leaves the board
    onward: { type: Array, default: () => [] }, // verbs after which it stays, and the focus goes on to the next
  },
  render: () => null,
  mounted() {
    this.current = null;
    this.place = 0;
    this.onKey = (event) => this.key(event);
    this.onClick = (event) => this.click(event);
    this.onInput = (event) => event.target.matches?.("[data-find]") && this.filter();
    this.onFocus = (event) => {
      const tile = event.target.closest?.("[data-tile]");
      if (tile) this.mark(tile);
    };
    document.addEventListener("keydown", this.onKey);
    document.addEventListener("click", this.onClick);
    document.addEventListener("input", this.onInput);
    document.addEventListener("focusin", this.onFocus);
    this.watcher = new MutationObserver(() => this.settle());
    this.watcher.observe(document.getElementById("app"), { childList: true, subtree: true });
    this.settle();
  },
  unmounted() {
    document.removeEventListener("keydown", this.onKey);
    document.removeEventListener("click", this.onClick);
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
        this.tell(`${this.selected().length} selected`);
      }
      this.go(next);
    },
    all() {
      const group = this.current?.closest("[data-group]");
      if (!group) return;
      const tiles = [...group.querySelectorAll("[data-tile]:not(.leaving)")];
      const on = tiles.some((tile) => tile.ariaSelected !== "true");
      for (const tile of tiles) this.select(tile, on);
      this.tell(`${this.selected().length} selected`);
    },
    toggle(tile) {
      this.select(tile, tile.ariaSelected !== "true");
      this.tell(`${this.selected().length} selected`);
    },

    // -- acting ------------------------------------------------------------------------------------------------
    act(verb, more = {}) {
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
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || this.covered()) return;
      const at = document.activeElement;
      if (at?.matches("[data-find]")) return this.finding(event);
      const tile = at?.closest("[data-tile]");
      if (!tile && at !== document.body && !at?.closest("[data-keys]")) return;
      if (at?.matches("input, textarea, select, [contenteditable]")) return;
      const key = event.key.length === 1 && !event.shiftKey ? event.key.toLowerCase() : event.key; // Caps Lock
      let handled = true;
      if (event.repeat && !(key in ARROWS)) handled = key.length === 1; // a key held down answers once
      else if (key in ARROWS && (tile || at === document.body)) this.move(key, event.shiftKey);
      else if (key === "Home" && tile) this.go(this.tiles()[0]);
      else if (key === "End" && tile) this.go(this.tiles().at(-1));
      else if (key === " " && tile) this.toggle(tile);
      else if (key === "Enter" && tile && !this.verbs.Enter) this.find();
      else if (key === "Enter" && !tile) handled = false;
      else if (key === "Escape") this.tiles().forEach((each) => this.select(each, false));
      else if (key === "/") this.find();
      else if (key in this.classes) this.act("answer", { class: this.classes[key] });
      else if (this.verbs[key] === "all") this.all();
      else if (key in this.verbs) this.act(this.verbs[key]);
      else handled = false;
      if (handled) event.preventDefault();
    },
    click(event) {
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
      if (verb) return this.act(verb);
      const option = event.target.closest?.("[data-class], [data-create]");
      if (option) this.choose(option);
    },

    // -- the class list ----------------------------------------------------------------------------------------
    find() {
      const input = document.querySelector("[data-find]");
      if (!input) return;
      input.focus();
      input.select();
      this.filter();
    },
    options() {
      return [...document.querySelectorAll("[data-class], [data-create]")]
        .filter((option) => !option.hidden)
        .sort((a, b) => a.style.order - b.style.order || 0);
    },
    filter() {
      const input = document.querySelector("[data-find]");
      const typed = input.value.trim();
      const wanted = typed.toLowerCase();
      let exact = false;
      for (const option of document.querySelectorAll("[data-class]")) {
        const name = option.dataset.name.toLowerCase();
        exact ||= option.dataset.name === typed;
        const rank = [name === wanted, name.startsWith(wanted), name.includes(" " + wanted), name.includes(wanted)];
        const order = rank.indexOf(true);
        option.hidden = order < 0;
        option.style.order = typed ? order : "";
      }
      const create = document.querySelector("[data-create]");
      if (create) {
        create.hidden = !typed || exact;
        create.style.order = 9;
        create.querySelector("[data-typed]").textContent = typed;
      }
      this.activate(typed ? this.options()[0] : null);
    },
    activate(option) {
      for (const other of document.querySelectorAll("[data-class], [data-create]")) other.ariaSelected = "false";
      const input = document.querySelector("[data-find]");
      if (option) {
        option.ariaSelected = "true";
        option.scrollIntoView({ block: "nearest" });
        input.setAttribute("aria-activedescendant", option.id);
      } else input.removeAttribute("aria-activedescendant");
    },
    finding(event) {
      const options = this.options();
      const at = options.findIndex((option) => option.ariaSelected === "true");
      if (event.key === "Escape") this.found();
      else if (event.key === "ArrowDown") this.activate(options[Math.min(at + 1, options.length - 1)]);
      else if (event.key === "ArrowUp") this.activate(options[Math.max(at - 1, 0)]);
      else if (event.key === "Enter" && at >= 0) this.choose(options[at]);
      else if (event.key !== "Enter") return;
      event.preventDefault();
    },
    choose(option) {
      const input = document.querySelector("[data-find]");
      const typed = input?.value.trim();
      this.found();
      if (option.dataset.class !== undefined) this.act("answer", { class: Number(option.dataset.class) });
      else if (typed) this.act("answer", { name: typed });
    },
    found() {
      const input = document.querySelector("[data-find]");
      if (input) input.value = "";
      this.filter();
      this.go(this.current);
    },

    // -- small things ------------------------------------------------------------------------------------------
    covered() {
      return document.querySelector(".q-dialog, .q-menu") !== null;
    },
    tell(text) {
      const said = document.querySelector("[data-said]");
      if (said) said.textContent = text;
    },
  },
};

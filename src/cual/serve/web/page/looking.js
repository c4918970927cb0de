// A tile of a board, large, in a dialog that Looking (looking.py) has put on the page. It opens when a tile gets the
// event "look", which keys.js sends, or is clicked twice, and gives the focus back to the tile it shows at the end.
// All of it happens in the browser: nothing that is done here changes anything.

const MOST = 16; // times as large as what fits
const STEP = 1.5;
const PAN = 0.2; // of the room, for one press of an arrow
const WAYS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const LINE = 48; // pixels, for one press of an arrow in a text

export default {
  props: { zoomed: { type: String, default: "" } },
  render: () => null,
  mounted() {
    this.tile = null;
    this.fingers = new Map(); // where each pointer is that is down
    this.onLook = (event) => this.open(event.target.closest("[data-tile]"));
    this.onTwice = (event) => {
      const tile = event.target.closest?.("[data-board] [data-tile]");
      if (tile) this.open(tile);
    };
    this.onResize = () => this.dialog()?.open && this.draw();
    document.addEventListener("look", this.onLook);
    document.addEventListener("dblclick", this.onTwice);
    window.addEventListener("resize", this.onResize);
  },
  unmounted() {
    document.removeEventListener("look", this.onLook);
    document.removeEventListener("dblclick", this.onTwice);
    window.removeEventListener("resize", this.onResize);
  },
  methods: {
    dialog() {
      return document.querySelector("[data-looking]");
    },
    part(selector) {
      return this.dialog().querySelector(selector);
    },
    at() {
      return this.part("[data-looking-at]");
    },
    open(tile) {
      const dialog = this.dialog();
      if (!dialog || !tile || dialog.open) return;
      this.listen(dialog);
      dialog.showModal();
      this.show(tile);
      this.at().focus();
    },
    // Vue may have drawn the dialog after this component: it is listened to when it is first opened.
    listen(dialog) {
      if (this.heard === dialog) return;
      this.heard = dialog;
      dialog.addEventListener("keydown", (event) => this.key(event));
      dialog.addEventListener("click", (event) => this.click(event));
      dialog.addEventListener("cancel", (event) => {
        event.preventDefault(); // Escape: closed like everything else closes it
        this.close();
      });
      dialog.addEventListener("close", () => this.back());
      const at = this.at();
      at.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
      at.addEventListener("pointerdown", (event) => this.down(event));
      at.addEventListener("pointermove", (event) => this.drag(event));
      for (const end of ["pointerup", "pointercancel"]) {
        at.addEventListener(end, (event) => this.fingers.delete(event.pointerId));
      }
    },
    show(tile) {
      if (!tile) return;
      this.tile = tile;
      this.fingers.clear();
      const small = tile.querySelector("img");
      const words = this.part(".looking-words");
      const name = tile.dataset.called;
      words.hidden = Boolean(small);
      this.part("img")?.remove(); // what was shown last must not be seen while the next one loads
      if (small) {
        const picture = document.createElement("img");
        picture.draggable = false;
        picture.src = `${small.getAttribute("src")}?large=1`;
        picture.alt = name;
        this.at().prepend(picture);
      } else words.textContent = tile.querySelector(".words")?.textContent ?? "";
      this.columns(JSON.parse(tile.dataset.columns ?? "[]"));
      const caption = tile.querySelector(".caption")?.textContent.trim();
      this.part("[data-looking-name]").textContent = caption ? `${name}, ${caption}` : name;
      this.at().classList.toggle("picture", Boolean(small));
      this.at().scrollTo(0, 0);
      this.zoom(0);
    },
    // What a table says of the sample: whatever stands there is text, and stays it.
    columns(cells) {
      const list = this.part(".looking-columns");
      const rows = cells.map((cell) => {
        const row = document.createElement("div");
        ["dt", "dd"].forEach((tag, i) => row.appendChild(document.createElement(tag)).append(cell[i]));
        return row;
      });
      list.replaceChildren(...rows);
      list.hidden = !rows.length;
    },
    next(step) {
      const tiles = [...document.querySelectorAll("[data-board] [data-tile]:not(.leaving)")];
      const here = tiles.indexOf(this.tile);
      this.show(here < 0 ? tiles[0] : tiles[here + step]);
    },
    // The browser tells "close" later, and gives the focus to where it was: who types on meanwhile must not hit that.
    close() {
      this.dialog().close();
      this.back();
    },
    back() {
      if (!this.tile) return; // it has been given back
      const tile = this.tile.isConnected ? this.tile : document.querySelector('[data-tile][tabindex="0"]');
      this.tile = null;
      tile?.focus();
      tile?.scrollIntoView({ block: "nearest" });
    },

    // -- larger, smaller, elsewhere ----------------------------------------------------------------------------
    zoom(factor) {
      const before = factor ? this.scale : 1;
      this.scale = factor ? Math.max(1, Math.min(MOST, this.scale * factor)) : 1;
      this.x = factor ? (this.x * this.scale) / before : 0;
      this.y = factor ? (this.y * this.scale) / before : 0;
      this.draw();
      const said = this.zoomed.replace("{percent}", Math.round(this.scale * 100));
      this.part("[data-looking-zoom]").textContent = said;
    },
    pan(dx, dy) {
      this.x += dx;
      this.y += dy;
      this.draw();
    },
    // Never so far that nothing is to be seen; a text becomes larger letters, and scrolls by itself.
    draw() {
      const at = this.at();
      const [wide, high] = [at.clientWidth, at.clientHeight].map((side) => (side * (this.scale - 1)) / 2);
      this.x = Math.max(-wide, Math.min(wide, this.x));
      this.y = Math.max(-high, Math.min(high, this.y));
      const picture = this.part("img");
      if (picture) picture.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
      for (const text of [".looking-words", ".looking-columns"]) {
        this.part(text).style.fontSize = `${Math.min(this.scale, 4)}em`;
      }
    },
    key(event) {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const at = this.at();
      const picture = this.part("img") !== null;
      const page = at.clientHeight * 0.9;
      const scroll = { PageUp: -page, PageDown: page, Home: -at.scrollHeight, End: at.scrollHeight }[event.key];
      const way = WAYS[event.key];
      if (event.key === "F4") !event.repeat && this.close();
      else if (event.key === "+" || event.key === "=") this.zoom(STEP);
      else if (event.key === "-") this.zoom(1 / STEP);
      else if (event.key === "0") this.zoom(0);
      else if (way && picture && this.scale > 1) {
        this.pan(way[0] * PAN * at.clientWidth, way[1] * PAN * at.clientHeight);
      } else if (way && way[0]) this.next(-way[0]);
      else if (way) at.scrollBy(0, -way[1] * LINE);
      else if (scroll !== undefined) at.scrollBy(0, scroll);
      else return;
      event.preventDefault();
      event.stopPropagation(); // once it is closed, the same key would open it again
    },
    click(event) {
      const does = event.target.closest("[data-looking-does]")?.dataset.lookingDoes;
      if (does === "before" || does === "after") this.next(does === "after" ? 1 : -1);
      else if (does === "in" || does === "out") this.zoom(does === "in" ? STEP : 1 / STEP);
      else if (does === "whole") this.zoom(0);
      else if (does === "close" || event.target === this.dialog()) this.close();
    },

    // -- mouse and fingers -------------------------------------------------------------------------------------
    wheel(event) {
      if (!this.part("img")) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? STEP ** 0.5 : STEP ** -0.5);
    },
    down(event) {
      if (!this.part("img")) return;
      event.preventDefault();
      this.at().focus();
      this.at().setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, [event.clientX, event.clientY]);
    },
    drag(event) {
      const was = this.fingers.get(event.pointerId);
      if (!was) return;
      const now = [event.clientX, event.clientY];
      const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
      this.fingers.set(event.pointerId, now);
      if (!other) return this.pan(now[0] - was[0], now[1] - was[1]);
      const apart = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
      this.zoom(apart(now) / apart(was));
    },
  },
};

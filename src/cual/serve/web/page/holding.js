// A finger held on a tile of a board becomes the event "hold" of that tile, which keys.js hears: it selects, as Space
// does. Whoever scrolls, moves or puts down a second finger does not hold. The browser's own menu for a held finger
// stays away, and so does the click that some browsers send when the finger is lifted: a hold is one thing, not two,
// and two of them are no double click.

const LONG = 500; // milliseconds, as phones have it
const STILL = 10; // pixels that a finger may tremble
const TILE = "[data-board] [data-tile]:not(.leaving)";

export default {
  render: () => null,
  mounted() {
    this.fingers = new Set();
    this.press = null; // a finger that is down: its tile, where it is, and the clock
    this.held = false; // it was long enough: whatever else comes of this finger is nothing
    this.clicks = [false, false]; // whether the last two were of held fingers
    this.heard = {
      pointerdown: (event) => this.down(event),
      pointermove: (event) => this.move(event),
      pointerup: (event) => this.up(event),
      pointercancel: (event) => this.up(event), // the browser scrolls
      contextmenu: (event) => this.menu(event),
      click: (event) => this.click(event),
      dblclick: (event) => this.clicks.includes(true) && this.stop(event),
    };
    for (const [name, heard] of Object.entries(this.heard)) document.addEventListener(name, heard, true);
  },
  unmounted() {
    this.forget();
    for (const [name, heard] of Object.entries(this.heard)) document.removeEventListener(name, heard, true);
  },
  methods: {
    down(event) {
      this.forget();
      this.held = false;
      if (event.pointerType !== "touch") return this.fingers.clear();
      if (event.isPrimary) this.fingers.clear(); // of one that went elsewhere nobody may have told
      this.fingers.add(event.pointerId);
      const tile = event.target.closest?.(TILE);
      if (!tile || this.fingers.size > 1) return;
      const clock = setTimeout(() => this.hold(), LONG);
      this.press = { tile, clock, x: event.clientX, y: event.clientY };
    },
    move(event) {
      if (!this.press || event.pointerType !== "touch") return;
      const far = Math.hypot(event.clientX - this.press.x, event.clientY - this.press.y);
      if (far > STILL) this.forget();
    },
    up(event) {
      this.fingers.delete(event.pointerId);
      this.forget();
    },
    forget() {
      clearTimeout(this.press?.clock);
      this.press = null;
    },
    hold() {
      const { tile } = this.press;
      this.forget();
      this.held = true;
      if (tile.isConnected) tile.dispatchEvent(new CustomEvent("hold", { bubbles: true }));
    },
    // Some browsers are quicker with it than our clock, others wait until the finger is lifted. A mouse and the menu
    // key have their menu.
    menu(event) {
      const finger = event.pointerType === "touch" || this.fingers.size > 0 || this.held;
      if (!finger || !event.target.closest?.(TILE)) return;
      event.preventDefault();
      if (this.press) this.hold();
    },
    click(event) {
      this.clicks = [this.clicks[1], this.held];
      if (this.held) this.stop(event);
      this.held = false;
    },
    stop(event) {
      if (!event.target.closest?.("[data-board]") || event.detail === 0) return; // elsewhere, or a key
      event.preventDefault();
      event.stopPropagation();
    },
  },
};

"""What a page must give to those who do not see it, or see it badly: checked in the browser's own terms."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe

NAMED = {
    "button",
    "link",
    "textbox",
    "combobox",
    "option",
    "image",
    "listbox",
    "progressbar",
    "spinbutton",
    "region",
}

# Text on what is really behind it, as drawn: the nearest ancestor with a background of its own.
CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return [...m.slice(0, 3), m[3] ?? 1]; };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement;
    if (!text || !e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (box.width < 2 || box.height < 2 || ["SCRIPT", "STYLE"].includes(e.tagName)) continue;
    const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(`${text.slice(0, 40)} (${ratio.toFixed(2)}, ${e.className})`);
  }
  return bad;
}"""

STRUCTURE = """() => {
  const bad = [];
  const shown = (e) => e.checkVisibility();
  for (const e of document.images) if (shown(e) && !e.alt) bad.push(`picture without words: ${e.src}`);
  const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push(`id twice: ${id}`);
  if (!document.documentElement.lang) bad.push('the page has no language');
  if (document.querySelectorAll('main').length !== 1) bad.push('not one main part');
  if (document.querySelectorAll('h1').length !== 1) bad.push('not one h1');
  let last = 0;
  for (const h of document.querySelectorAll('h1, h2, h3, h4')) {
    const level = Number(h.tagName[1]);
    if (shown(h) && level > last + 1) bad.push(`heading ${level} after ${last}: ${h.innerText}`);
    if (shown(h)) last = level;
  }
  for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) bad.push('positive tabindex');
  const room = Math.min(innerWidth, screen.width);
  if (document.documentElement.scrollWidth > room + 1) bad.push('wider than the screen');
  return bad;
}"""

FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  if (e === document.body) return null;
  const frame = e.closest('.q-field');
  const ring = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2)
    || (frame && frame.classList.contains('q-field--focused'));
  return [ring, e.outerHTML.slice(0, 120)];
}"""


def complaints(page: Any) -> list[str]:
    """Everything that is wrong with a page, in words."""
    found = [*page.evaluate(STRUCTURE), *(f"contrast: {text}" for text in page.evaluate(CONTRAST))]
    session = page.context.new_cdp_session(page)
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value")
        if not node["ignored"] and role in NAMED and not (name or "").strip():
            found.append(f"{role} without a name: {node.get('properties', '')}")
    session.detach()
    return found


# What comes or goes is half transparent meanwhile; a spinner turns for good.
STILL = """() => !document.querySelector('[class*="-enter-active"], [class*="-leave-active"]')
  && document.getAnimations().every((a) => a.playState !== 'running'
    || a.effect.getComputedTiming().endTime === Infinity)"""


def axe(page: Any) -> list[str]:
    """What axe-core finds, by the rules of WCAG 2.1 A and AA, in words, once nothing moves any more."""
    page.wait_for_function(STILL)
    rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    found = Axe().run(page, options=rules).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def without_ring(page: Any, presses: int = 30) -> list[str]:
    """Controls that Tab reaches and that do not show it."""
    bad: list[str] = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        state = page.evaluate(FOCUS)
        if state is not None and not state[0]:
            bad.append(state[1])
    return bad

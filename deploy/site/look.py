#!/usr/bin/env python3
"""Opens pages and pictures in Chromium and names what a person would not like to see. Exit code 1 if there is something.

    deploy/site/look.py target/site docs/brokel report.html

A page is wider than a phone; a table or code in it cannot be scrolled. Labels of a picture lie upon each other. A text can
hardly be read on its ground, by day or by night. The page complains in the console. A directory means all pages and pictures in it.
"""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from browser import Browser

# A phone of today, CSS pixels.
PHONE = (390, 844)
DESK = (1280, 900)
# The least contrast of text with its ground: that of WCAG 2.1 for large text (1.4.3, AA).
LEAST_CONTRAST = 3
# Labels may touch by this much, CSS pixels: boxes of text are larger than its letters.
TOUCHING = 1

LOADED = "new Promise(done => document.readyState == 'complete' ? done() : addEventListener('load', done))"

# A phone shows a page that is too wide from farther away, so that the window is as wide as the page.
TOO_WIDE = """(width => {
  const page = document.documentElement, found = [];
  if (page.scrollWidth <= width) return found;
  for (const element of document.querySelectorAll('body *')) {
    const box = element.getBoundingClientRect();
    if (box.width && box.right > width + 1) found.push(`${element.tagName.toLowerCase()} to ${Math.round(box.right)} px: ${element.textContent.trim().slice(0, 40)}`);
  }
  return [`the page is ${page.scrollWidth} px wide on a phone of ${width}: ${found[0] || ''}`];
})"""

OVERLAPPING = """(touching => {
  const found = [];
  for (const picture of document.querySelectorAll('svg')) {
    const texts = [...picture.querySelectorAll('text')].filter(text => text.textContent.trim());
    const boxes = texts.map(text => [text.textContent.trim(), text.getBoundingClientRect()]).filter(([, box]) => box.width && box.height);
    boxes.forEach(([one, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left), height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (width > touching && height > touching * 5) found.push(`the labels "${one}" and "${other}" overlap by ${width.toFixed(1)} x ${height.toFixed(1)} px`);
    }));
  }
  return found;
})"""

HARD_TO_READ = """(least => {
  const parse = color => { const n = (color.match(/[\\d.]+/g) || []).map(Number); return n.length < 3 ? null : {rgb: n.slice(0, 3), a: n.length > 3 ? n[3] : 1}; };
  const light = rgb => { const [r, g, b] = rgb.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const canvas = matchMedia('(prefers-color-scheme: dark)').matches && getComputedStyle(document.documentElement).colorScheme.includes('dark') ? [18, 18, 18] : [255, 255, 255];
  const ground = element => {
    const svg = element.ownerSVGElement, own = element.getBoundingClientRect();
    if (svg) for (const shape of [...svg.querySelectorAll('rect')].filter(shape => shape.compareDocumentPosition(element) & 4).reverse()) {
      const box = shape.getBoundingClientRect(), color = parse(getComputedStyle(shape).fill), x = (own.left + own.right) / 2, y = (own.top + own.bottom) / 2;
      if (color && color.a > 0.9 && Number(getComputedStyle(shape).fillOpacity) > 0.9 && box.left <= x && x <= box.right && box.top <= y && y <= box.bottom) return color.rgb;
    }
    for (let at = svg || element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color && color.a > 0.9) return color.rgb;
    }
    return canvas;
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || ['STYLE', 'SCRIPT', 'TITLE', 'NOSCRIPT', 'style', 'title', 'desc'].includes(element.tagName)) continue;
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    if (!box.width || style.visibility != 'visible' || Number(style.opacity) < 0.5) continue;
    const color = parse(element.ownerSVGElement ? style.fill : style.color);
    if (!color || color.a < 0.5) continue;
    const is = contrast(color.rgb, ground(element));
    if (is < least) found.add(`"${text.slice(0, 40)}" has a contrast of ${is.toFixed(1)}`);
  }
  return [...found].slice(0, 5);
})"""


class Looker:
    """Looks at pages, one after the other."""

    def __init__(self, profile):
        self.browser = Browser(profile)
        for domain in ("Page", "Runtime", "Log"):
            self.browser.call(f"{domain}.enable")

    def faults(self, url):
        """What is wrong with a page or picture."""
        browser, found = self.browser, []
        is_picture = url.endswith(".svg")
        browser.events.clear()
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            browser.screen(*DESK)
            browser.call("Page.navigate", url=url)
            browser.ask(LOADED)
            found += [f"{scheme}: {fault}" for fault in browser.ask(f"{HARD_TO_READ}({LEAST_CONTRAST})")]
        found += browser.ask(f"{OVERLAPPING}({TOUCHING})")
        if not is_picture:
            browser.screen(*PHONE, phone=True)
            found += browser.ask(f"{TOO_WIDE}({PHONE[0]})")
        return found + [complaint for event in browser.events for complaint in complaints(event)]

    def close(self):
        self.browser.close()


def complaints(event):
    """Errors and warnings that a page writes into the console."""
    parameters = event.get("params", {})
    if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
        yield f"the console says: {parameters['entry']['text']}"
    if event.get("method") == "Runtime.exceptionThrown":
        yield f"a script fails: {parameters['exceptionDetails'].get('text')}"


def files(places):
    for place in map(pathlib.Path, places):
        yield from sorted(file for file in place.rglob("*") if file.suffix in (".html", ".svg")) if place.is_dir() else [place]


def main():
    wrong = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        looker = Looker(profile)
        for file in files(sys.argv[1:]):
            for fault in looker.faults(file.resolve().as_uri()):
                print(f"{file}: {fault}")
                wrong += 1
        looker.close()
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

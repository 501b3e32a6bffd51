"""Checks a built site: every page of docs/ is in it, and every link leads to a page and a heading.

usage: check.py DOCS SITE
"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        link = attributes.get("href" if tag == "a" else "src" if tag == "img" else "")
        if link:
            self.links.append(link)


def main(docs, site):
    wrong = []
    for source in docs.glob("*.md"):
        # mdBook renders README.md as index.html, and SUMMARY.md is its table of contents.
        name = {"README": "index", "SUMMARY": None}.get(source.stem, source.stem)
        if name and not (site / f"{name}.html").exists():
            wrong.append(f"docs/{source.name} is not in docs/SUMMARY.md")
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or link == "print.html":
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{path.name}: {link} leads nowhere")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.name}: {link} has no such heading")
    for line in sorted(set(wrong)):
        print(line)
    print(f"{len(pages)} pages, {len(set(wrong))} wrong")
    return bool(wrong)


sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))

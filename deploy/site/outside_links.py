"""A preprocessor of mdBook: links to files outside docs/ become text, since the site contains only docs/."""

import json
import re
import sys

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#]+)[^)]*\)")


def rewrite(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            chapter["content"] = OUTSIDE.sub(lambda link: f"{link[1]} (`{link[2]}`)", chapter["content"])
            rewrite(chapter["sub_items"])


if len(sys.argv) > 1:
    # `supports RENDERER`: any.
    sys.exit(0)
_, book = json.load(sys.stdin)
rewrite(book.get("items") or book.get("sections"))
json.dump(book, sys.stdout)

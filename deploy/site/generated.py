"""A preprocessor of mdBook: a line `<!-- output of: tidegate ... -->` becomes the output of that command.

The variable TIDEGATE names the program; without it `tidegate` must be on the path.
"""

import json
import os
import re
import subprocess
import sys

COMMAND = re.compile(r"^<!-- output of: tidegate (.+) -->$", re.MULTILINE)


def output(match):
    program = os.environ.get("TIDEGATE", "tidegate")
    text = subprocess.run([program, *match[1].split()], check=True, capture_output=True, text=True).stdout
    # The page has a title and an introduction of its own: the output begins with its first section.
    return text[text.index("\n## "):]


def fill(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            chapter["content"] = COMMAND.sub(output, chapter["content"])
            fill(chapter["sub_items"])


if len(sys.argv) > 1:
    # `supports RENDERER`: any.
    sys.exit(0)
_, book = json.load(sys.stdin)
fill(book.get("items") or book.get("sections"))
json.dump(book, sys.stdout)

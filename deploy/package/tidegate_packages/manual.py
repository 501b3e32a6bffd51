"""Manual pages, made of the output of `tidegate manual`: one for the program, one for each of its commands."""
import gzip
import re

# A heading with the name of a command, and its help text.
SECTION = re.compile(r"^## `(?P<command>[^`]+)`\n\n```text\n(?P<text>.*?)\n```$", re.MULTILINE | re.DOTALL)


def pages(release):
    """Manual pages by the name of their file, compressed."""
    sections = SECTION.findall(release.answer("manual"))
    names = [name_of(command) for command, _ in sections]
    return {
        f"{name}.1.gz": gzip.compress(page(release, name, text, names).encode(), compresslevel=9, mtime=0)
        for name, (_, text) in zip(names, sections)
    }


def name_of(command):
    return command.replace(" ", "-")


def page(release, name, text, names):
    """A page: the help text as it stands, and the pages of the commands below this one."""
    summary = " ".join(text.split("\n\n")[0].split())
    below = [other for other in names if other.startswith(f"{name}-") and "-" not in other[len(name) + 1:]]
    lines = [
        f'.TH {name.upper()} 1 "" "Tidegate {release.version}" "User commands"',
        ".SH NAME",
        f"{escape(name)} \\- {escape(summary)}",
        ".SH DESCRIPTION",
        ".nf",
        *map(escape, text.splitlines()),
        ".fi",
    ]
    if below:
        lines += [".SH SEE ALSO", ", ".join(f"{escape(other)}(1)" for other in below)]
    return "\n".join(lines) + "\n"


def escape(line):
    """A line as roff prints it: no character of it is a request."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "'") else line

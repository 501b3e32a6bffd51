"""The npm package: `npm install` puts the program into node_modules/.bin."""
import json

from .archive import Archive, compress
from .release import LICENSE, ROOT, SUMMARY


def write(release, out):
    description = {
        "name": "tidegate",
        "version": release.version,
        "description": SUMMARY,
        "license": LICENSE,
        "bin": {"tidegate": "bin/tidegate"},
        "os": ["linux"],
        "cpu": [release.node_architecture],
    }
    if not release.is_static:
        description["libc"] = ["glibc"]
    archive = Archive(release.time)
    archive.add("package/package.json", (json.dumps(description, indent=2) + "\n").encode())
    archive.add("package/bin/tidegate", release.binary.read_bytes(), 0o755)
    archive.add("package/LICENSE", (ROOT / "LICENSE").read_bytes())
    file = out / f"tidegate-{release.version}.tgz"
    file.write_bytes(compress(archive.finish(), release.level))
    return file

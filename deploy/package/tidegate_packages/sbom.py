"""The bill of materials: every crate that is linked into the program, as CycloneDX 1.6."""
import json

from .release import LICENSE, run


def write(release, out):
    target = f"{release.machine}-unknown-linux-gnu"
    metadata = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(name for name, package in packages.items() if package["name"] == "tidegate")
    edges = linked(nodes, root)
    components = [component(packages[name]) for name in sorted(edges) if name != root]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": reference(packages[root]), "name": "tidegate", "version": release.version,
                                   "licenses": [{"expression": LICENSE}]}},
        "components": components,
        "dependencies": [{"ref": reference(packages[name]), "dependsOn": sorted(reference(packages[used]) for used in uses)}
                         for name, uses in sorted(edges.items())],
    }
    file = out / f"tidegate-{release.version}.cdx.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file


def linked(nodes, root):
    """What each crate uses, for all that the root uses at run time: no build scripts and no tests."""
    edges, waiting = {}, [root]
    while waiting:
        name = waiting.pop()
        if name in edges:
            continue
        edges[name] = sorted(used["pkg"] for used in nodes[name]["deps"] if any(kind["kind"] is None for kind in used["dep_kinds"]))
        waiting.extend(edges[name])
    return edges


def component(package):
    found = {"type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"], "purl": reference(package)}
    if package["license"]:
        # Old crates write `MIT/Apache-2.0`, which is no expression of SPDX.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return found


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"

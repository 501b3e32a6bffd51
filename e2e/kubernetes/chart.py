"""Holds the chart and the shipped manifests to an API server: `chart.py DIRECTORY PORT DEFINITIONS`.

DIRECTORY has what control-plane.sh makes, DEFINITIONS the kinds of other projects as build.sh fetches them. Each object is applied without
storing it. Then Helm installs, upgrades, rolls back and uninstalls a release of each mode.
"""

import pathlib
import sys

from api import Server
from release import CHART, RELEASES, ROOT, Helm, Release, documents

NAMESPACE = "messaging"


def main():
    folder, port, definitions = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    server = Server(folder, port)
    helm = Helm(folder / "admin.kubeconfig", NAMESPACE)
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, None, dry_run=False)
    for file in sorted(definitions.glob("*.yaml")):
        for definition in documents(file.read_text(encoding="utf-8")):
            server.define(definition)
    lots = {name: documents(helm("template", "sea", CHART, *settings)) for name, (settings, _) in RELEASES.items()}
    for file in sorted([*ROOT.glob("deploy/kubernetes/*.yaml"), *CHART.glob("examples/*.yaml")]):
        lots[str(file.relative_to(ROOT))] = documents(file.read_text(encoding="utf-8"))
    for name, things in lots.items():
        for thing in things:
            server.apply(thing, NAMESPACE, dry_run=True)
        print(f"{name}: all {len(things)} objects are accepted", flush=True)
    for name, (settings, changes) in RELEASES.items():
        Release(server, helm, name).live(settings, changes)
        print(f"{name}: installed, upgraded, rolled back and removed", flush=True)


if __name__ == "__main__":
    main()

"""Applies what the chart renders, and the shipped manifests, to an API server without storing them: `chart.py DIRECTORY PORT`.

DIRECTORY has the certificates of control-plane.sh. Objects of an API that the server does not have are counted, not applied.
"""

import http.client
import json
import pathlib
import ssl
import subprocess
import sys
from collections import Counter

from ruamel.yaml import YAML

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/tidegate"
HELM = ROOT / "target/servers/bin/helm"
BUS = "bus.address=nats://nats:4222"
PIPELINES = f"hub.pipelines={ROOT}/examples/hub/sinks.toml"
# Settings of `helm template` by name, so that each template and each of its branches is rendered.
RELEASES = {
    "broker": [],
    "broker-open": ["--set", "auth.allowAnonymous=true,persistence.enabled=false,websocket=true,service.type=LoadBalancer"],
    "broker-tls": ["--set", "tls.certManager.enabled=true,tls.certManager.issuerRef.name=x,serviceMonitor.enabled=true"],
    "cluster": ["--set", f"mode=cluster,{BUS},bus.replicas=3"],
    "fleet": ["--set", "mode=fleet"],
    "fleet-of-two": ["--set", f"mode=fleet,{BUS}"],
    "fleet-keda": ["--set", f"mode=fleet,{BUS},fleet.brokersScaledBy=other,fleet.metricsTlsSecret=metrics-tls"],
    "mobile": ["--set", f"mode=mobile,{BUS},mobile.groups=x"],
    "hub": ["--set", "mode=hub,hub.broker=mqtt://b:1883", "--set-file", PIPELINES],
}
NAMESPACE = "messaging"


class Server:
    def __init__(self, folder, port):
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        self.known = {}

    def ask(self, method, path, body=None, kind="application/json"):
        self.connection.request(method, path, body, {"content-type": kind})
        answer = self.connection.getresponse()
        text = answer.read()
        # The server has no JSON about groups that it does not know.
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else {"message": text.decode()}

    def resource(self, version, kind):
        """The path of a kind of objects and whether it is in namespaces; None where the server has no such kind."""
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if base not in self.known:
            status, answer = self.ask("GET", base)
            self.known[base] = answer["resources"] if status == 200 else []
        for resource in self.known[base]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                return base, resource["name"], resource["namespaced"]
        return None

    def apply(self, thing, dry_run=True):
        """Whether the server has the kind; raises where it refuses the object."""
        found = self.resource(thing["apiVersion"], thing["kind"])
        if not found:
            return False
        base, plural, namespaced = found
        place = f"/namespaces/{thing['metadata'].get('namespace', NAMESPACE)}" if namespaced else ""
        query = "fieldManager=chart&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        path = f"{base}{place}/{plural}/{thing['metadata']['name']}?{query}"
        status, answer = self.ask("PATCH", path, json.dumps(thing), "application/apply-patch+yaml")
        if status not in (200, 201):
            raise SystemExit(f"{thing['kind']} {thing['metadata']['name']} is refused: {answer.get('message', answer)}")
        return True


def documents(text):
    return [document for document in YAML(typ="safe").load_all(text) if document]


def rendered(settings):
    done = subprocess.run([HELM, "template", "sea", CHART, "-n", NAMESPACE, *settings], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return documents(done.stdout)


def main():
    server = Server(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
    server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, dry_run=False)
    lots = {name: rendered(settings) for name, settings in RELEASES.items()}
    for file in sorted([*ROOT.glob("deploy/kubernetes/*.yaml"), *CHART.glob("examples/*.yaml")]):
        lots[str(file.relative_to(ROOT))] = documents(file.read_text(encoding="utf-8"))
    left = Counter()
    for name, things in lots.items():
        applied = 0
        for thing in things:
            if server.apply(thing):
                applied += 1
            else:
                left[f"{thing['kind']} of {thing['apiVersion']}"] += 1
        print(f"{name}: {applied} of {len(things)} objects are accepted", flush=True)
    for kind, count in left.items():
        print(f"not applied, since the server has no such kind: {count} {kind}")


if __name__ == "__main__":
    main()

"""The life of a release of the chart: installation, upgrade, rollback, removal."""

import pathlib
import shutil
import subprocess
import tempfile

from ruamel.yaml import YAML

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/tidegate"
HELM = ROOT / "target/servers/bin/helm"
BUS = "bus.address=nats://nats:4222"
PIPELINES = f"hub.pipelines={ROOT}/examples/hub/sinks.toml"
# Settings of releases by name, so that each template and each of its branches is rendered; and what an upgrade changes.
RELEASES = {
    "broker": ([], ["--set", "websocket=true,service.type=LoadBalancer,persistence.enabled=true"]),
    "broker-open": (
        ["--set", "auth.allowAnonymous=true,persistence.enabled=false,websocket=true,service.type=LoadBalancer"],
        ["--set", "auth.allowAnonymous=false"],
    ),
    "broker-tls": (
        ["--set", "tls.certManager.enabled=true,tls.certManager.issuerRef.name=x,serviceMonitor.enabled=true"],
        ["--set", "tls.keepPlain=true,networkPolicy.enabled=false"],
    ),
    "cluster": (["--set", f"mode=cluster,{BUS},bus.replicas=3"], ["--set", "replicas=5"]),
    "fleet": (["--set", "mode=fleet"], ["--set", BUS]),
    "fleet-of-two": (["--set", f"mode=fleet,{BUS}"], ["--set", "fleet.orchestrators.max=6"]),
    "fleet-keda": (
        ["--set", f"mode=fleet,{BUS},fleet.brokersScaledBy=other,fleet.metricsTlsSecret=metrics-tls,serviceMonitor.enabled=true"],
        ["--set", "fleet.metricsTlsSecret="],
    ),
    "mobile": (["--set", f"mode=mobile,{BUS},mobile.groups=x"], ["--set", "mobile.groups=,mobile.coreReplicas=3"]),
    "hub": (["--set", "mode=hub,hub.broker=mqtt://b:1883", "--set-file", PIPELINES], ["--set", f"{BUS},hub.broker="]),
}
# Fields that the server changes by itself.
OF_SERVER = {"resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"}


class Helm:
    """Helm for one namespace of a server."""

    def __init__(self, kubeconfig, namespace):
        self.kubeconfig, self.namespace = kubeconfig, namespace

    def __call__(self, *arguments):
        command = [HELM, *arguments, "--namespace", self.namespace, "--kubeconfig", self.kubeconfig]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"helm {arguments[0]} failed: {done.stderr}")
        return done.stdout


def next_version(folder):
    """A copy of the chart as its next release: only its version differs."""
    copy = folder / "tidegate"
    shutil.copytree(CHART, copy)
    file = copy / "Chart.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("0.1.0", "0.2.0"), encoding="utf-8")
    assert file.read_text(encoding="utf-8") != text, "the version of the chart is not 0.1.0 any more"
    return copy


def documents(text):
    return [document for document in YAML(typ="safe").load_all(text) if document]


def content(thing):
    """An object without the fields that the server changes by itself."""
    metadata = {key: value for key, value in thing["metadata"].items() if key not in OF_SERVER}
    return {**{key: value for key, value in thing.items() if key != "status"}, "metadata": metadata}


class Release:
    """A release of the chart; each step ends the program where it fails or leaves the wrong objects."""

    def __init__(self, server, helm, name):
        self.server, self.helm, self.name = server, helm, name

    def expect(self, right, fault):
        if not right:
            raise SystemExit(f"release {self.name}: {fault}")

    def objects(self):
        """Each object of the release by kind and name, as the server has it."""
        found = {}
        for thing in documents(self.helm("get", "manifest", self.name)):
            stored = self.server.find(thing, self.helm.namespace)
            self.expect(stored is not None, f"{thing['kind']} {thing['metadata']['name']} is missing")
            found[thing["kind"], thing["metadata"]["name"]] = content(stored)
        return found

    def expect_gone(self, objects):
        for (kind, name), thing in objects.items():
            left = self.server.find(thing, self.helm.namespace)
            # A volume that is marked for removal waits for a controller, which does not run here.
            self.expect(left is None or "deletionTimestamp" in left["metadata"], f"{kind} {name} is left")

    def live(self, settings, changes):
        """Installs, upgrades to the next version, upgrades with changed settings, rolls back, uninstalls."""
        self.helm("install", self.name, CHART, *settings)
        installed = self.objects()
        with tempfile.TemporaryDirectory() as folder:
            chart = next_version(pathlib.Path(folder))
            self.helm("upgrade", self.name, chart, *settings)
            upgraded = self.objects()
            self.expect(upgraded.keys() == installed.keys(), "an upgrade to the next version adds or removes objects")
            self.expect(secrets(upgraded) == secrets(installed), "an upgrade to the next version changes secrets")
            self.helm("upgrade", self.name, chart, "--reuse-values", *changes)
            changed = self.objects()
        self.expect(secrets(changed).items() >= secrets(installed).items(), "changed settings change secrets")
        self.expect(changed != upgraded, "changed settings change nothing")
        self.helm("rollback", self.name, "1")
        returned = self.objects()
        self.expect(returned == installed, "a rollback leaves other objects than the installation")
        self.expect_gone({key: thing for key, thing in changed.items() if key not in returned})
        self.helm("uninstall", self.name)
        self.expect_gone(returned)


def secrets(objects):
    return {name: thing["data"] for (kind, name), thing in objects.items() if kind == "Secret"}

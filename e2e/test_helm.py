"""The Helm chart: what it renders in each mode, and a broker that runs with it."""

import base64
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

from ruamel.yaml import YAML

from broker import BINARY, PATIENCE, ROOT, free_ports

sys.path.insert(0, str(pathlib.Path(__file__).parent / "kubernetes"))
from schemas import Schemas

CHART = ROOT / "deploy" / "helm" / "tidegate"
HELM = os.environ.get("HELM", str(ROOT / "target" / "servers" / "bin" / "helm"))
# The description of the API that a release of Kubernetes has; ./test fetches it.
SWAGGER = ROOT / "target" / "servers" / "kubernetes.json"
MODES = {
    "broker": [],
    "cluster": ["bus.address=nats://nats:4222"],
    "fleet": [],
    "mobile": ["bus.address=nats://nats:4222", "mobile.groups=x"],
    "hub": ["hub.broker=mqtt://b:1883"],
}
# Values that are files.
FILES = {"hub": ["--set-file", f"hub.pipelines={ROOT}/examples/hub/sinks.toml"]}


def helm(*arguments):
    return subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def render(*settings, mode="broker"):
    """The objects of a release `sea` by kind and name."""
    values = [f"mode={mode}", *MODES[mode], *settings]
    done = helm("template", "sea", str(CHART), "--set", ",".join(values), *FILES.get(mode, []))
    if done.returncode:
        raise AssertionError(done.stderr)
    documents = [document for document in YAML(typ="safe").load_all(done.stdout) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def pod_specs(objects):
    for (kind, name), document in objects.items():
        if kind in ("StatefulSet", "Deployment"):
            yield name, document["spec"]["template"]["spec"]


class Rendered(unittest.TestCase):
    def test_lint_finds_nothing(self):
        for mode, settings in MODES.items():
            done = helm("lint", "--strict", str(CHART), "--set", ",".join([f"mode={mode}", *settings]), *FILES.get(mode, []))
            self.assertEqual(done.returncode, 0, f"{mode}: {done.stdout}{done.stderr}")

    def test_every_reference_of_a_pod_exists(self):
        for mode in MODES:
            objects = render("serviceMonitor.enabled=true", mode=mode)
            for name, spec in pod_specs(objects):
                volumes = {volume["name"]: volume for volume in spec["volumes"]} if "volumes" in spec else {}
                claims = objects.get(("StatefulSet", name), {}).get("spec", {}).get("volumeClaimTemplates", [])
                known = set(volumes) | {claim["metadata"]["name"] for claim in claims}
                for container in spec["containers"] + spec.get("initContainers", []):
                    for mount in container.get("volumeMounts", []):
                        self.assertIn(mount["name"], known, f"{mode}: {name}")
                    for variable in container.get("env", []):
                        secret = variable.get("valueFrom", {}).get("secretKeyRef")
                        if secret:
                            self.assertIn(secret["key"], objects["Secret", secret["name"]]["data"])
                for volume in volumes.values():
                    if "secret" in volume:
                        self.assertIn(("Secret", volume["secret"]["secretName"]), objects, f"{mode}: {name}")
                    if "configMap" in volume:
                        self.assertIn(("ConfigMap", volume["configMap"]["name"]), objects, f"{mode}: {name}")
                    if "persistentVolumeClaim" in volume:
                        claim = volume["persistentVolumeClaim"]["claimName"]
                        self.assertIn(("PersistentVolumeClaim", claim), objects, f"{mode}: {name}")

    def test_every_selector_finds_a_pod(self):
        for mode in MODES:
            objects = render("serviceMonitor.enabled=true", mode=mode)
            pods = [
                document["spec"]["template"]["metadata"]["labels"]
                for (kind, _), document in objects.items()
                if kind in ("StatefulSet", "Deployment")
            ]
            for (kind, name), document in objects.items():
                spec = document.get("spec", {})
                selector = {"Service": spec.get("selector"), "PodDisruptionBudget": spec.get("selector", {}).get("matchLabels")}.get(kind)
                if kind == "NetworkPolicy":
                    selector = spec["podSelector"]["matchLabels"]
                if selector:
                    self.assertTrue(any(selector.items() <= labels.items() for labels in pods), f"{mode}: {kind} {name}")

    def test_pods_run_without_rights(self):
        for mode in MODES:
            for name, spec in pod_specs(render(mode=mode)):
                self.assertTrue(spec["securityContext"]["runAsNonRoot"], name)
                for container in spec["containers"] + spec.get("initContainers", []):
                    self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"], name)
                    self.assertEqual(container["securityContext"]["capabilities"]["drop"], ["ALL"], name)

    def test_what_cannot_work_is_refused(self):
        refused = {
            "mode=cluster": "bus.address",
            "mode=mobile": "bus.address",
            "mode=other": "mode",
            "mode=fleet,fleet.orchestrators.max=2": "bus.address",
            "mode=fleet,bus.address=nats://n,fleet.orchestrators.min=5,fleet.orchestrators.max=3": "lower min or raise max",
            "mode=hub,hub.pipelines=x": "hub.broker",
            "mode=hub,hub.broker=mqtt://b": "hub.pipelines",
            "mode=hub,hub.broker=http://b": "hub",
            "auth.allowAnonymous=true,auth.existingSecret=x": "auth.allowAnonymous",
            "tls.existingSecret=a,tls.certManager.enabled=true": "exclude each other",
            "tls.certManager.enabled=true": "issuerRef",
            "autentication.users=x": "autentication",
        }
        for settings, word in refused.items():
            done = helm("template", "sea", str(CHART), "--set", settings)
            self.assertNotEqual(done.returncode, 0, settings)
            self.assertIn(word, done.stderr)

    def test_a_hub_listens_for_nobody_but_prometheus(self):
        objects = render("serviceMonitor.enabled=true", "hub.existingBrokerSecret=b", "bus.address=nats://n", mode="hub")
        self.assertNotIn(("Service", "sea-tidegate"), objects)
        self.assertEqual([port["port"] for port in objects["Service", "sea-tidegate-pods"]["spec"]["ports"]], [18083])
        (rule,) = objects["NetworkPolicy", "sea-tidegate"]["spec"]["ingress"]
        self.assertEqual(rule["ports"], [{"port": 18083}])
        (container,) = objects["StatefulSet", "sea-tidegate"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["args"][-2:], ["--broker", "$(BROKER)"])
        variables = {variable["name"]: variable for variable in container["env"]}
        self.assertEqual(variables["BROKER"]["valueFrom"]["secretKeyRef"], {"name": "b", "key": "broker"})
        self.assertEqual(variables["TIDEGATE__HUB__BUS"]["value"], "nats://n")

    def test_orchestrators_with_a_bus_are_members_with_one_shard(self):
        bus = "bus.address=nats://n,fleet.orchestrators.max=4"
        objects = render(bus, mode="fleet")
        settings = tomllib.loads(objects["ConfigMap", "sea-tidegate"]["data"]["tidegate.toml"])["cluster"]
        self.assertEqual((settings["share"], settings["redirect"]), ("when-asked", "moves"))

        def shards(*values):
            (container,) = render(bus, *values, mode="fleet")["StatefulSet", "sea-tidegate"]["spec"]["template"]["spec"]["containers"]
            return {variable["name"]: variable.get("value") for variable in container["env"]}["TIDEGATE__NODE__SHARDS"]

        self.assertEqual(shards(), "1")
        self.assertEqual(shards("fleet.orchestratorShards=3"), "3")

    def test_a_fleet_with_a_bus_has_several_orchestrators(self):
        def orchestrators(*values):
            objects = render(*values, mode="fleet")
            return tomllib.loads(objects["ConfigMap", "sea-tidegate-fleet"]["data"]["fleet.toml"])["sla"]["orchestrators"]

        self.assertEqual(orchestrators(), {"min": 1, "max": 1})
        self.assertEqual(orchestrators("bus.address=nats://n"), {"min": 2, "max": 4})
        self.assertEqual(orchestrators("bus.address=nats://n,fleet.orchestrators.min=6"), {"min": 6, "max": 6})
        self.assertEqual(orchestrators("bus.address=nats://n,fleet.orchestrators.max=1"), {"min": 1, "max": 1})

    def test_a_changed_fleet_file_starts_the_manager_again(self):
        def digest(*values):
            objects = render(*values, mode="fleet")
            template = objects["Deployment", "sea-tidegate-manager"]["spec"]["template"]
            return template["metadata"]["annotations"]["tidegate/fleet"]

        self.assertEqual(digest(), digest())
        changed = [digest(), digest("bus.address=nats://n"), digest("fleet.brokers.max=9")]
        self.assertEqual(len(set(changed)), 3)

    def test_the_monitoring_system_reaches_the_manager_of_the_manifests(self):
        manifests = ROOT / "deploy" / "kubernetes"
        files = ["manager.yaml", "network-policy.yaml"]
        documents = [it for file in files for it in YAML(typ="safe").load_all((manifests / file).read_text())]
        objects = {(it["kind"], it["metadata"]["name"]): it for it in documents}
        listen = tomllib.loads(objects["ConfigMap", "tidegate-manager"]["data"]["fleet.toml"])["metrics"]["listen"]
        number = int(listen.rsplit(":", 1)[1])
        (container,) = objects["Deployment", "tidegate-manager"]["spec"]["template"]["spec"]["containers"]
        self.assertEqual([port["containerPort"] for port in container["ports"]], [number])
        self.assertEqual([port["port"] for port in objects["Service", "tidegate-manager"]["spec"]["ports"]], [number])
        (rule,) = objects["NetworkPolicy", "tidegate-manager"]["spec"]["ingress"]
        self.assertEqual(rule["ports"], [{"port": number}])

    def test_autoscalers_reach_the_metrics_of_the_manager(self):
        objects = render("fleet.brokersScaledBy=other,fleet.metricsTlsSecret=t", mode="fleet")
        (port,) = objects["Service", "sea-tidegate-manager"]["spec"]["ports"]
        manager = objects["Deployment", "sea-tidegate-manager"]["spec"]["template"]["spec"]
        (container,) = manager["containers"]
        (listening,) = container["ports"]
        self.assertEqual((port["targetPort"], port["port"]), (listening["name"], listening["containerPort"]))
        fleet = tomllib.loads(objects["ConfigMap", "sea-tidegate-fleet"]["data"]["fleet.toml"])
        self.assertEqual(fleet["metrics"]["listen"], f"0.0.0.0:{listening['containerPort']}")
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertIn(str(pathlib.PurePosixPath(fleet["metrics"]["key"]).parent), mounts)
        (rule,) = objects["NetworkPolicy", "sea-tidegate-manager"]["spec"]["ingress"]
        self.assertEqual(rule["ports"], [{"port": port["port"]}])
        names = {peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in rule["from"]}
        self.assertEqual(names, {"monitoring", "keda"})
        examples = [*YAML(typ="safe").load_all((CHART / "examples" / "external-metrics.yaml").read_text())]
        self.assertEqual(examples[0]["spec"]["service"]["port"], port["port"])

    def test_keda_scales_the_brokers_of_a_fleet(self):
        example = YAML(typ="safe").load((CHART / "examples" / "keda.yaml").read_text())["spec"]
        done = helm("template", "tidegate", str(CHART), "--set", "mode=fleet,fleet.brokersScaledBy=other")
        sets = [one for one in YAML(typ="safe").load_all(done.stdout) if one and one["kind"] == "StatefulSet"]
        (brokers,) = [one for one in sets if one["metadata"]["name"] == example["scaleTargetRef"]["name"]]
        # Two controllers of one number would disagree.
        self.assertNotIn("replicas", brokers["spec"])
        (container,) = brokers["spec"]["template"]["spec"]["containers"]
        # Utilization is a part of the request.
        by_manager, by_cpu = example["triggers"]
        self.assertEqual(by_cpu["metricType"], "Utilization")
        port = render("fleet.brokersScaledBy=other", mode="fleet")["Service", "sea-tidegate-manager"]["spec"]["ports"][0]["port"]
        self.assertIn(f"//tidegate-manager.messaging:{port}/", by_manager["metadata"]["url"])
        self.assertIn("cpu", container["resources"]["requests"])

    def test_a_policy_admits_each_port_that_a_peer_uses(self):
        for mode in MODES:
            objects = render(mode=mode)
            policies = [one["spec"] for (kind, _), one in objects.items() if kind == "NetworkPolicy"]
            for (kind, name), document in objects.items():
                if kind != "StatefulSet":
                    continue
                pod = document["spec"]["template"]
                opened = {port["containerPort"] for port in pod["spec"]["containers"][0].get("ports", [])}
                admitted = set()
                for policy in policies:
                    if policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items():
                        admitted |= {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
                self.assertEqual(opened, admitted, f"{mode}: {name}")

    def test_tls_closes_the_plain_port(self):
        for settings in (["tls.existingSecret=x"], ["tls.certManager.enabled=true", "tls.certManager.issuerRef.name=y"]):
            ports = render(*settings)["Service", "sea-tidegate"]["spec"]["ports"]
            self.assertEqual([port["port"] for port in ports], [8883])


@unittest.skipUnless(SWAGGER.exists(), f"objects were NOT held to the schemas of Kubernetes: {SWAGGER} is not there, ./test fetches it")
class OfTheRelease(unittest.TestCase):
    """Objects against the schemas of the release of Kubernetes that the fleet is tried with."""

    @classmethod
    def setUpClass(cls):
        cls.schemas = Schemas(SWAGGER)

    def assert_known(self, documents, what):
        faults = [fault for document in documents for fault in self.schemas.faults(document)]
        self.assertEqual(faults, [], what)

    def test_the_api_knows_every_field_of_the_chart(self):
        added = ["", "tls.existingSecret=x,websocket=true", "serviceMonitor.enabled=true,service.type=LoadBalancer", "auth.existingSecret=x"]
        for mode in MODES:
            for settings in added:
                objects = render(*([settings] if settings else []), mode=mode)
                self.assert_known(objects.values(), f"{mode} {settings}")
        self.assert_known(render("bus.address=nats://n,fleet.orchestrators.max=4", mode="fleet").values(), "fleet on a bus")

    def test_the_api_knows_every_field_of_the_manifests(self):
        for file in [*(ROOT / "deploy" / "kubernetes").glob("*.yaml"), *(CHART / "examples").glob("*.yaml")]:
            documents = [document for document in YAML(typ="safe").load_all(file.read_text()) if document]
            self.assert_known(documents, file.name)

    def test_a_field_that_the_api_lacks_is_found(self):
        objects = render()
        (document,) = [document for (kind, _), document in objects.items() if kind == "StatefulSet"]
        document["spec"]["replica"] = 1
        document["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"] = "mqtt"
        del document["spec"]["selector"]
        self.assertEqual(len(self.schemas.faults(document)), 3)

    def test_a_field_that_an_api_service_lacks_is_found(self):
        spec = {"groupPriorityMinimum": 100, "versionPriority": 100, "servise": {"name": "manager"}}
        service = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.x"}, "spec": spec}
        self.assertEqual(self.schemas.faults(service), ["APIService.spec: servise is not known"])


class Running(unittest.TestCase):
    """The configuration of each mode, with the paths and ports of this machine."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tidegate-helm-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def here(self, text, ports):
        for path in ("/etc/tidegate", "/run/tidegate", "/var/lib/tidegate"):
            text = text.replace(path, f"{self.folder}{path}")
        return re.sub(r"0\.0\.0\.0:(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", text)

    def prepare(self, objects):
        """Writes what the pod's volumes contain, and runs its init containers."""
        ports = dict(zip(("1883", "9001", "18083"), free_ports(3)))
        for folder in ("etc/tidegate/admin", "etc/tidegate/cluster", "run/tidegate", "var/lib/tidegate"):
            (self.folder / folder).mkdir(parents=True)
        secrets = {"admin": "token", "cluster": "secret"}
        for part, key in secrets.items():
            secret = objects.get(("Secret", f"sea-tidegate-{part}"))
            if secret:
                file = self.folder / "etc/tidegate" / part / key
                file.write_bytes(base64.b64decode(secret["data"][key]))
                file.chmod(0o600)
        # An operator's own Secret has it, for a sink of the hub's example.
        (self.folder / "etc/tidegate/s3.secret").write_text("secret\n")
        config = self.folder / "tidegate.toml"
        config.write_text(self.here(objects["ConfigMap", "sea-tidegate"]["data"]["tidegate.toml"], ports))
        users = objects.get(("Secret", "sea-tidegate-users"), {"data": {}})["data"]
        for container in objects["StatefulSet", "sea-tidegate"]["spec"]["template"]["spec"].get("initContainers", []):
            key = container["env"][0]["valueFrom"]["secretKeyRef"]["key"]
            password = base64.b64decode(users[key]).decode()
            arguments = [self.here(word, ports).replace("$(PASSWORD)", password) for word in container["args"]]
            subprocess.run([BINARY, *arguments], check=True, timeout=PATIENCE, capture_output=True)
        return config, ports, {user: base64.b64decode(word).decode() for user, word in users.items()}

    def test_each_configuration_is_accepted(self):
        for mode in MODES:
            objects = render("websocket=true", mode=mode)
            config, _, _ = self.prepare(objects)
            added = {"cluster": ["--node", "sea-0", "--bus", "nats://127.0.0.1:1"]}.get(mode, [])
            done = subprocess.run([BINARY, "config", "check", config], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, f"{mode} {added}: {done.stdout}{done.stderr}")
            shutil.rmtree(self.folder)
            self.folder.mkdir()

    def test_a_broker_admits_the_users_of_the_release(self):
        users = "auth.users[0].name=gauge,auth.users[0].password=tide-table,auth.users[1].name=pump,auth.users[1].password=low-water"
        config, ports, users = self.prepare(render(users))
        self.assertEqual(users, {"gauge": "tide-table", "pump": "low-water"})
        broker = subprocess.Popen([BINARY, "run", "--config", config], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(broker.wait, PATIENCE)
        self.addCleanup(broker.stdout.close)
        self.addCleanup(broker.kill)
        self.assertIn("ready", broker.stdout.readline())

        def publish(*login):
            command = [BINARY, "pub", "-p", ports["1883"], "-t", "gate", "-m", "open", "-q", "1", *login]
            return subprocess.run(map(str, command), capture_output=True, timeout=PATIENCE).returncode

        self.assertEqual(publish("-u", "pump", "-P", "low-water"), 0)
        self.assertNotEqual(publish("-u", "pump", "-P", "high-water"), 0)
        self.assertNotEqual(publish(), 0)


if __name__ == "__main__":
    unittest.main()

"""A client of the API server that control-plane.sh starts."""

import http.client
import json
import ssl


class Server:
    """The API server at a port of this machine, spoken to as its administrator."""

    def __init__(self, folder, port):
        """`folder` has the certificates that control-plane.sh makes."""
        self.port = port
        self.context = ssl.create_default_context(cafile=folder / "ca.crt")
        self.context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self.connection = self.connect()
        self.known = {}

    def connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=60)

    def ask(self, method, path, body=None, kind="application/json"):
        self.connection.request(method, path, body, {"content-type": kind})
        answer = self.connection.getresponse()
        text = answer.read()
        # The server has no JSON about groups that it does not know.
        is_json = answer.getheader("content-type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else {"message": text.decode()}

    def resource(self, version, kind):
        """The path of a kind of objects, and whether it is in namespaces."""
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if base not in self.known:
            status, answer = self.ask("GET", base)
            if status != 200:
                raise SystemExit(f"the API server has no {version}: {answer.get('message', answer)}")
            self.known[base] = answer["resources"]
        for resource in self.known[base]:
            if resource["kind"] == kind and "/" not in resource["name"]:
                return base, resource["name"], resource["namespaced"]
        raise SystemExit(f"the API server has no {kind} of {version}")

    def path(self, thing, namespace):
        base, plural, namespaced = self.resource(thing["apiVersion"], thing["kind"])
        place = f"/namespaces/{thing['metadata'].get('namespace', namespace)}" if namespaced else ""
        return f"{base}{place}/{plural}/{thing['metadata']['name']}"

    def apply(self, thing, namespace, dry_run):
        """Applies an object on the server's side with strict validation; ends the program where the server refuses it."""
        query = "fieldManager=chart&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        path = f"{self.path(thing, namespace)}?{query}"
        status, answer = self.ask("PATCH", path, json.dumps(thing), "application/apply-patch+yaml")
        if status not in (200, 201):
            raise SystemExit(f"{thing['kind']} {thing['metadata']['name']} is refused: {answer.get('message', answer)}")

    def find(self, thing, namespace):
        """An object as the server has it; None where it has none."""
        status, answer = self.ask("GET", self.path(thing, namespace))
        return answer if status == 200 else None

    def define(self, definition):
        """Stores the definition of a kind, and returns when the server serves it."""
        name = definition["metadata"]["name"]
        self.apply(definition, None, dry_run=False)
        base = f"/apis/{definition['apiVersion']}/customresourcedefinitions"
        stream = self.connect()
        stream.request("GET", f"{base}?watch=true&timeoutSeconds=60&fieldSelector=metadata.name%3D{name}")
        for line in stream.getresponse():
            conditions = json.loads(line)["object"].get("status", {}).get("conditions") or []
            if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
                stream.close()
                return
        raise SystemExit(f"the API server does not serve {name} within 60 s")

"""Objects of Kubernetes against the schemas of a release: the fields that its API server knows, their types, and those that it requires."""

import json

# Kinds of other projects, which a release of Kubernetes does not describe.
FOREIGN_GROUPS = {"monitoring.coreos.com", "cert-manager.io", "keda.sh"}
TYPES = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}
# Texts that may also be numbers.
NUMBERS_TOO = {"io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"}


class Schemas:
    """The schemas of `swagger.json`, the description that is part of every release."""

    def __init__(self, file):
        self.definitions = json.loads(file.read_text(encoding="utf-8"))["definitions"]
        self.names = {
            (kind["group"], kind["version"], kind["kind"]): name
            for name, definition in self.definitions.items()
            for kind in definition.get("x-kubernetes-group-version-kind", [])
        }

    def faults(self, document):
        """What an API server would refuse in an object, each with its path."""
        group, _, version = document["apiVersion"].rpartition("/")
        kind = document["kind"]
        if group in FOREIGN_GROUPS:
            return []
        name = self.names.get((group, version, kind))
        if name is None:
            return [f"{document['apiVersion']} {kind} is not known"]
        return list(self._of_definition(document, name, kind))

    def _of_definition(self, value, name, path):
        if name in NUMBERS_TOO and isinstance(value, int):
            return
        yield from self._of(value, self.definitions[name], path)

    def _of(self, value, schema, path):
        if "$ref" in schema:
            yield from self._of_definition(value, schema["$ref"].removeprefix("#/definitions/"), path)
            return
        wanted = TYPES.get(schema.get("type"), object)
        # A truth is a number of Python, and of nothing else.
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted not in (bool, object)):
            yield f"{path}: {value!r} is no {schema['type']}"
            return
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._of(item, schema.get("items", {}), f"{path}[{index}]")
        if isinstance(value, dict):
            yield from self._of_fields(value, schema, path)

    def _of_fields(self, value, schema, path):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for field in schema.get("required", []):
            if field not in value:
                yield f"{path}: {field} is missing"
        for field, item in value.items():
            if field in properties:
                yield from self._of(item, properties[field], f"{path}.{field}")
            elif isinstance(others, dict):
                yield from self._of(item, others, f"{path}.{field}")
            elif properties and not others:
                yield f"{path}: {field} is not known"

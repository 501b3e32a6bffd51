#!/bin/bash
# Holds the Kubernetes provider and the manager to a real API server with RBAC and simulated nodes, with the manifests that are shipped.
# usage: run.sh [PORT]   (default 21443; it and the three after it must be free)   needs: go, cargo, curl, openssl
# The first run builds the control plane (build.sh); the rest takes about 20 s once everything is built.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
PORT=${1:-21443}
DIRECTORY=$(mktemp -d)
SERVER=https://127.0.0.1:$PORT
"$HERE/build.sh"
"$HERE/control-plane.sh" "$DIRECTORY" "$PORT" &
plane=$!
# Its logs stay where they are when something has failed.
trap 'status=$?; kill "$plane" 2> /dev/null; wait "$plane" 2> /dev/null; [ $status -ne 0 ] || rm -rf "$DIRECTORY"; exit $status' EXIT
until [ -f "$DIRECTORY/ready" ]; do kill -0 "$plane" && sleep 0.2; done
cd "$DIRECTORY"
echo "$SERVER" > server

admin() { curl -sS --fail-with-body --cacert ca.crt --cert admin.crt --key admin.key -o answer "$@" || { cat answer >&2; exit 1; }; }

# Applies one YAML document of standard input, and minds fields that do not exist.
apply() {
  local text kind name path
  text=$(cat)
  kind=$(sed -n 's/^kind: //p' <<< "$text")
  name=$(sed -n 's/^  name: //p' <<< "$text" | head -1)
  local core=/api/v1/namespaces/messaging
  case $kind in
    Namespace) path=/api/v1/namespaces ;;
    Node) path=/api/v1/nodes ;;
    CustomResourceDefinition) path=/apis/apiextensions.k8s.io/v1/customresourcedefinitions ;;
    Service | ConfigMap | ServiceAccount | PersistentVolumeClaim) path=$core/${kind,,}s ;;
    Deployment | StatefulSet) path=/apis/apps/v1/namespaces/messaging/${kind,,}s ;;
    Role | RoleBinding) path=/apis/rbac.authorization.k8s.io/v1/namespaces/messaging/${kind,,}s ;;
    PodDisruptionBudget) path=/apis/policy/v1/namespaces/messaging/poddisruptionbudgets ;;
    NetworkPolicy) path=/apis/networking.k8s.io/v1/namespaces/messaging/networkpolicies ;;
    *) echo "no path for a $kind" >&2; exit 1 ;;
  esac
  admin -X PATCH "$SERVER$path/$name?fieldManager=e2e&force=true&fieldValidation=Strict" \
    -H 'content-type: application/apply-patch+yaml' --data-binary @- <<< "$text"
}
apply_file() {
  local document=
  while IFS= read -r line || [ -n "$line" ]; do
    if [ "$line" = --- ]; then
      apply <<< "$document"
      document=
    else
      document+=$line$'\n'
    fi
  done < "$1"
  apply <<< "$document"
}

apply <<< $'apiVersion: v1\nkind: Node\nmetadata:\n  name: simulated\n  annotations: {kwok.x-k8s.io/node: fake}'
apply_file "$ROOT/deploy/kubernetes/namespace.yaml"
for file in "$ROOT"/deploy/kubernetes/*.yaml; do apply_file "$file"; done
# There is no scheduler: pods are put onto the simulated node.
for set in tidegate-broker tidegate-orchestrator mosquitto; do
  admin -X PATCH "$SERVER/apis/apps/v1/namespaces/messaging/statefulsets/$set" -H 'content-type: application/merge-patch+json' \
    -d '{"spec":{"template":{"spec":{"nodeName":"simulated"}}}}'
done
# A metrics server needs machines to measure: its objects are stored instead, under its names and behind the same rights.
apply <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: pods.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for a test"}
spec:
  group: metrics.k8s.io
  scope: Namespaced
  names: {plural: pods, singular: podmetrics, kind: PodMetrics, listKind: PodMetricsList}
  versions:
    - name: v1beta1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
YAML

# The manager's service account, as a kubelet would give it to its pod.
admin -X POST "$SERVER/api/v1/namespaces/messaging/serviceaccounts/tidegate-manager/token" -H 'content-type: application/json' \
  -d '{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'
sed -n 's/^ *"token": "\(.*\)",\{0,1\}$/\1/p' answer > token
rm answer
sed -e 's,client-certificate:.*,tokenFile: token,' -e '/client-key:/d' -e 's/user: admin}/user: admin, namespace: messaging}/' \
  admin.kubeconfig > manager.kubeconfig

cd "$ROOT"
TIDEGATE_KUBERNETES=$DIRECTORY cargo test -p tidegate-fleet --features kubernetes --test kubernetes -- --ignored

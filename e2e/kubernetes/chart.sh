#!/bin/bash
# Holds the Helm chart, in each mode, and the manifests of deploy/kubernetes to a real API server that has the kinds of KEDA, the
# Prometheus operator and cert-manager: each object is applied as `kubectl apply --server-side --dry-run=server --validate=strict`
# does; then Helm installs, upgrades, rolls back and removes a release of each mode.
# usage: chart.sh [PORT]   (default 21453; it and the two after it must be free)   needs: go, openssl, ./test e2e for Helm and .venv
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
PORT=${1:-21453}
DIRECTORY=$(mktemp -d)
export API_ONLY=1
"$HERE/build.sh"
"$HERE/control-plane.sh" "$DIRECTORY" "$PORT" &
plane=$!
trap 'status=$?; kill "$plane" 2> /dev/null; wait "$plane" 2> /dev/null; [ $status -ne 0 ] || rm -rf "$DIRECTORY"; exit $status' EXIT
until [ -f "$DIRECTORY/ready" ]; do kill -0 "$plane" && sleep 0.2; done
"$HERE/../../.venv/bin/python" "$HERE/chart.py" "$DIRECTORY" "$PORT" "$HOME/.cache/tidegate-kubernetes/definitions"

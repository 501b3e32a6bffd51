#!/bin/bash
# Runs a control plane without machines in the foreground, on loopback: etcd, kube-apiserver with RBAC, kube-controller-manager with
# the controllers of StatefulSets and their volumes, and kwok. What build.sh has built must be there. Needs openssl.
# usage: control-plane.sh DIRECTORY PORT [BIN]   PORT and the three after it must be free
# With API_ONLY=1 only etcd and kube-apiserver run: objects are checked and stored, and nothing acts on them.
# DIRECTORY gets admin.kubeconfig (a client certificate of system:masters), logs, and the file `ready` when all of it works.
set -euo pipefail
DIRECTORY=$(realpath -m "${1:?directory}")
PORT=${2:?port}
BUILT=${3:-$HOME/.cache/tidegate-kubernetes}
BIN=$BUILT/bin
SERVER=https://127.0.0.1:$PORT
ETCD=http://127.0.0.1:$((PORT + 1))
PEER=http://127.0.0.1:$((PORT + 2))
rm -rf "$DIRECTORY"
mkdir -p "$DIRECTORY"
cd "$DIRECTORY"

# An authority, and certificates for the API server and for its clients: NAME SUBJECT EXTENSIONS
authority() {
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=test-authority 2> openssl.log
  openssl genrsa -traditional -out accounts.key 2048 2>> openssl.log
}
certificate() {
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" 2>> openssl.log
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out "$1.crt" \
    -extfile <(printf '%s' "$3") 2>> openssl.log
}
kubeconfig() {
  cat > "$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: $SERVER
    certificate-authority: ca.crt
users:
- name: $1
  user:
    client-certificate: $1.crt
    client-key: $1.key
contexts:
- name: test
  context: {cluster: test, user: $1}
current-context: test
YAML
}

running=()
stop() {
  trap - EXIT TERM INT
  # The API server hangs when etcd goes first.
  for ((at = ${#running[@]} - 1; at >= 0; at--)); do
    kill -TERM "${running[at]}" 2> /dev/null || true
    for _ in $(seq 50); do kill -0 "${running[at]}" 2> /dev/null || break; sleep 0.1; done
    kill -KILL "${running[at]}" 2> /dev/null || true
  done
}
trap stop EXIT
trap 'exit 0' TERM INT
start() {
  local log=$1.log
  shift
  "$@" > "$log" 2>&1 &
  running+=($!)
}
wait_until() {
  for _ in $(seq 600); do "$@" > /dev/null 2>&1 && return; sleep 0.1; done
  echo "not within 60 s: $*; see the logs in $DIRECTORY" >&2
  exit 1
}
admin() { curl -sf --cacert ca.crt --cert admin.crt --key admin.key "$@"; }

authority
certificate server /CN=server "subjectAltName=IP:127.0.0.1,IP:10.0.0.1"
certificate admin /O=system:masters/CN=admin "extendedKeyUsage=clientAuth"
kubeconfig admin

start etcd "$BIN/etcd" --data-dir etcd --listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" --listen-peer-urls "$PEER" \
  --initial-advertise-peer-urls "$PEER" --initial-cluster "default=$PEER" --unsafe-no-fsync --log-level error
start apiserver "$BIN/kube-apiserver" --etcd-servers="$ETCD" --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \
  --secure-port="$PORT" --tls-cert-file=server.crt --tls-private-key-file=server.key --client-ca-file=ca.crt \
  --service-cluster-ip-range=10.0.0.0/24 --authorization-mode=RBAC --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file=accounts.key --service-account-signing-key-file=accounts.key \
  --disable-admission-plugins=ServiceAccount --endpoint-reconciler-type=none
wait_until admin "$SERVER/readyz"
if [ -z "${API_ONLY:-}" ]; then
  start controllers "$BIN/kube-controller-manager" --kubeconfig=admin.kubeconfig --leader-elect=false --bind-address=127.0.0.1 \
    --secure-port=0 --controllers=statefulset-controller,garbage-collector-controller,disruption-controller
  start kwok "$BIN/kwok" --kubeconfig admin.kubeconfig --manage-all-nodes=true --config "$BUILT/stages.yaml" \
    --server-address="127.0.0.1:$((PORT + 3))"
  wait_until curl -sf "http://127.0.0.1:$((PORT + 3))/healthz"
fi
wait_until admin "$SERVER/api/v1/namespaces/default"
touch ready
wait -n "${running[@]}"
echo "a part of the control plane has ended; see the logs in $DIRECTORY" >&2
exit 1

#!/bin/bash
# Builds what a control plane without machines needs, from Go modules, with versions pinned: etcd, kube-apiserver,
# kube-controller-manager (its StatefulSet controller makes and deletes the pods) and kwok (nodes and kubelets that only pretend).
# usage: build.sh [DIRECTORY]   (default: ~/.cache/tidegate-kubernetes)   needs: go, and Go's module proxy
# With API_ONLY=1 it builds etcd and kube-apiserver alone, which is all that chart.sh needs beside the definitions of kinds.
# The first run compiles for about 20 minutes on two cores and needs 4 GB; later runs see that everything is there.
set -euo pipefail

KUBERNETES=v1.36.3
STAGING=v0.36.3 # the libraries of the same release: k8s.io/api and its siblings
ETCD=v3.6.8
KWOK=v0.8.0
KEDA=v2.21.0
PROMETHEUS_OPERATOR=v0.85.0
CERT_MANAGER=v1.21.2
HOME_DIRECTORY=${1:-$HOME/.cache/tidegate-kubernetes}
BIN=$HOME_DIRECTORY/bin
mkdir -p "$BIN"
export CGO_ENABLED=0 GOFLAGS=-mod=mod

# A main package of another module is built from a module of our own that requires it: `go install PACKAGE@VERSION` refuses
# modules with `replace` lines, which both Kubernetes and etcd have.
kubernetes() {
  mkdir -p "$HOME_DIRECTORY/kubernetes"
  cd "$HOME_DIRECTORY/kubernetes"
  if [ ! -f go.mod ]; then
    go mod init tidegate-e2e-kubernetes
    go mod edit -require "k8s.io/kubernetes@$KUBERNETES"
    # Kubernetes takes its own libraries from a folder that its published module lacks: they are published beside it.
    local mod
    mod=$(go mod download -json "k8s.io/kubernetes@$KUBERNETES" | sed -n 's/.*"GoMod": "\(.*\)",\{0,1\}$/\1/p')
    sed -n 's,^[[:space:]]*\(k8s.io/[^ ]*\) => ./staging/.*,\1,p' "$mod" | sort -u | while read -r library; do
      go mod edit -replace "$library=$library@$STAGING"
    done
    printf 'package main\n\nimport _ "k8s.io/kubernetes/pkg/util/kernel"\n\nfunc main() {}\n' > main.go
  fi
  local stamp=k8s.io/component-base/version
  local flags="-s -w -X $stamp.gitVersion=$KUBERNETES -X $stamp.gitMajor=1 -X $stamp.gitMinor=36"
  local name names=(kube-apiserver)
  [ -n "${API_ONLY:-}" ] || names+=(kube-controller-manager)
  for name in "${names[@]}"; do
    [ -x "$BIN/$name" ] && continue
    go build -trimpath -ldflags "$flags" -o "$BIN/$name" "k8s.io/kubernetes/cmd/$name"
  done
}

etcd() {
  [ -x "$BIN/etcd" ] && return
  mkdir -p "$HOME_DIRECTORY/etcd"
  cd "$HOME_DIRECTORY/etcd"
  [ -f go.mod ] || go mod init tidegate-e2e-etcd
  go get "go.etcd.io/etcd/server/v3@$ETCD"
  go build -trimpath -ldflags '-s -w' -o "$BIN/etcd" go.etcd.io/etcd/server/v3
}

kwok() {
  [ -x "$BIN/kwok" ] || GOBIN=$BIN go install "sigs.k8s.io/kwok/cmd/kwok@$KWOK"
  # The stages say how a pretended node and pod behave; they are files of the same module.
  local stages
  stages=$(go env GOMODCACHE)/sigs.k8s.io/kwok@$KWOK/kustomize/stage
  [ -f "$HOME_DIRECTORY/stages.yaml" ] || for file in "$stages"/node/fast/node-*.yaml "$stages"/node/heartbeat/node-*.yaml "$stages"/pod/fast/pod-*.yaml; do
    echo ---
    cat "$file"
  done > "$HOME_DIRECTORY/stages.yaml"
}

# The definitions of the kinds of other projects that the chart has objects of; they are files of Go modules.
definitions() {
  local place=$HOME_DIRECTORY/definitions
  mkdir -p "$place"
  definition "github.com/kedacore/keda/v2@$KEDA" config/crd/bases/keda.sh_scaledobjects.yaml
  definition "github.com/prometheus-operator/prometheus-operator@$PROMETHEUS_OPERATOR" \
    example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml
  definition "github.com/cert-manager/cert-manager@$CERT_MANAGER" deploy/crds/cert-manager.io_certificates.yaml
}
definition() {
  local directory
  [ -f "$place/${1##*@}-${2##*/}" ] && return
  directory=$(go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)",\{0,1\}$/\1/p')
  cp "$directory/$2" "$place/${2##*/}.new"
  rm -f "$place"/*-"${2##*/}"
  mv "$place/${2##*/}.new" "$place/${1##*@}-${2##*/}"
}

(definitions)
(etcd)
[ -n "${API_ONLY:-}" ] || (kwok)
(kubernetes)
echo "$BIN"

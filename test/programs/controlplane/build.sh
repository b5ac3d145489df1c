#!/usr/bin/env bash
# Builds the control plane that tests and the demo run against into bin/, next to this file.
# The versions stand in go.mod; a second run with the same ones does nothing.
set -euo pipefail

assets=${KUBEBUILDER_ASSETS:-}
if [[ -n $assets && -x $assets/etcd && -x $assets/kube-apiserver ]]; then
  echo "controlplane: KUBEBUILDER_ASSETS holds etcd and kube-apiserver, building nothing"
  exit 0
fi

cd "$(dirname "${BASH_SOURCE[0]}")"
binaries=(etcd kube-apiserver kube-scheduler kube-controller-manager kubectl kubelet)

# All that the binaries depend on: when one byte of it changes, they are built again.
inputs() {
  go version
  go env GOOS GOARCH
  cat go.mod go.sum build.sh
}

complete() {
  local binary
  for binary in "${binaries[@]}"; do
    [[ -x bin/$binary ]] || return 1
  done
  inputs | cmp -s - bin/stamp
}

if complete; then
  echo "controlplane: up to date in test/programs/controlplane/bin"
  exit 0
fi

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
IFS=. read -r major minor _ <<<"${version#v}"

echo "controlplane: building Kubernetes $version and etcd $etcd into test/programs/controlplane/bin (about 5 minutes the first time)"

mkdir -p bin
rm -f bin/stamp
export CGO_ENABLED=0
info=k8s.io/component-base/version
go build -o bin/etcd -ldflags "-s -w" go.etcd.io/etcd/server/v3
go build -o bin/ -ldflags "-s -w -X $info.gitVersion=$version -X $info.gitMajor=$major -X $info.gitMinor=$minor" \
  k8s.io/kubernetes/cmd/{kube-apiserver,kube-scheduler,kube-controller-manager,kubectl,kubelet}

# Last, so that a build which was cut short is not taken for a whole one.
inputs >bin/stamp.new
mv bin/stamp.new bin/stamp

#!/usr/bin/env bash
# Builds the control plane that tests and the demo run against into bin/, next to this file. With the name of a folder below
# test/programs as argument, it builds the tools of the go.mod there instead.
# The versions are in go.mod. A binary that exists and was built from the same inputs is not built again.
set -euo pipefail

assets=${KUBEBUILDER_ASSETS:-}
if [[ $# == 0 && -n $assets && -x $assets/etcd && -x $assets/kube-apiserver ]]; then
  echo "controlplane: KUBEBUILDER_ASSETS holds etcd and kube-apiserver, building nothing"
  exit 0
fi

cd "$(dirname "${BASH_SOURCE[0]}")/../${1:-controlplane}"
folder=${PWD##*/}
mapfile -t binaries < <(echo etcd; sed -n 's,^\tk8s.io/kubernetes/cmd/,,p' go.mod)

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
IFS=. read -r major minor _ <<<"${version#v}"
info=k8s.io/component-base/version
flags="-s -w -X $info.gitVersion=$version -X $info.gitMajor=$major -X $info.gitMinor=$minor"
export CGO_ENABLED=0

# What a binary is built from: if a byte of it changes, the binary is built again.
inputs=$({ go version; go env GOOS GOARCH; echo "$flags"; cat go.mod go.sum; } | sha256sum)

complete() { # binary
  [[ -x bin/$1 && $(cat "bin/.$1.inputs" 2>/dev/null) == "$inputs" ]]
}

missing=()
for binary in "${binaries[@]}"; do
  complete "$binary" || missing+=("$binary")
done
if ((${#missing[@]} == 0)); then
  echo "controlplane: up to date in test/programs/$folder/bin"
  exit 0
fi

echo "controlplane: Kubernetes $version and etcd $etcd in test/programs/$folder/bin: ${#missing[@]} of ${#binaries[@]} binaries are to be built."
if ((${#missing[@]} == ${#binaries[@]})); then
  echo "controlplane: this takes about 5 minutes the first time. etcd and kube-apiserver take longest: Go downloads and compiles what the others share."
fi
mkdir -p bin
SECONDS=0
for n in "${!binaries[@]}"; do
  binary=${binaries[n]}
  package=k8s.io/kubernetes/cmd/$binary
  [[ $binary != etcd ]] || package=go.etcd.io/etcd/server/v3
  printf 'controlplane: [%d/%d] %-24s' $((n + 1)) ${#binaries[@]} "$binary"
  if complete "$binary"; then
    echo "is there"
    continue
  fi
  began=$SECONDS
  printf 'building ... '
  # Under its name only once it is complete, so that a build that was interrupted is not taken for a binary.
  go build -o "bin/.$binary.new" -ldflags "$flags" "$package"
  mv "bin/.$binary.new" "bin/$binary"
  echo "$inputs" >"bin/.$binary.inputs"
  echo "$((SECONDS - began)) s"
done
echo "controlplane: done after $SECONDS s"

#!/usr/bin/env bash
# Puts the control plane that tests and the demo run against into bin/, next to this file: build.sh [FOLDER [PROGRAM...]].
# FOLDER below test/programs has the go.mod with the versions (controlplane), and PROGRAM is one of its tools (all of them).
# Nothing is built where KUBEBUILDER_ASSETS is set. What setup-envtest has installed is linked, if it is of the same minor version.
# Else a program is built, unless it was built from the same inputs before.
set -euo pipefail

folder=${1:-controlplane}
shift || true
cd "$(dirname "${BASH_SOURCE[0]}")/../$folder"
programs=("$@")
if [[ -n ${KUBEBUILDER_ASSETS:-} && $folder == controlplane ]]; then
  for program in "${programs[@]:-kube-apiserver}"; do
    [[ -x $KUBEBUILDER_ASSETS/$program ]] || {
      echo "controlplane: KUBEBUILDER_ASSETS is set, and $KUBEBUILDER_ASSETS has no $program. Unset it to have the control plane built." >&2
      exit 1
    }
  done
  echo "controlplane: taken from $KUBEBUILDER_ASSETS, because KUBEBUILDER_ASSETS is set"
  exit 0
fi
((${#programs[@]})) || mapfile -t programs < <(echo etcd; sed -n 's,^\tk8s.io/kubernetes/cmd/,,p' go.mod)

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
IFS=. read -r major minor _ <<<"${version#v}"
info=k8s.io/component-base/version
flags="-s -w -X $info.gitVersion=$version -X $info.gitMajor=$major -X $info.gitMinor=$minor"
export CGO_ENABLED=0

# What a program is built from: if a byte of it changes, the program is built again.
inputs=$({ go version; go env GOOS GOARCH; echo "$flags"; cat go.mod go.sum; } | sha256sum)

complete() { # program
  [[ -x bin/$1 && $(cat "bin/.$1.inputs" 2>/dev/null) == "$inputs" ]]
}

# Where setup-envtest installs: a folder for each version and platform.
installed=${XDG_DATA_HOME:-${HOME:-}/.local/share}/kubebuilder-envtest/k8s
envtest=$(compgen -G "$installed/$major.$minor.*-$(go env GOOS)-$(go env GOARCH)" | sort -V | tail -1 || true)

mkdir -p bin
missing=()
for program in "${programs[@]}"; do
  complete "$program" && continue
  if [[ -n $envtest && -x $envtest/$program ]]; then
    ln -sfn "$envtest/$program" "bin/$program"
    echo "controlplane: $program is taken from $envtest"
    continue
  fi
  missing+=("$program")
done
if ((${#missing[@]} == 0)); then
  echo "controlplane: up to date in test/programs/$folder/bin"
  exit 0
fi

echo "controlplane: Kubernetes $version and etcd $etcd in test/programs/$folder/bin: ${#missing[@]} of ${#programs[@]} programs are to be built."
SECONDS=0
for n in "${!missing[@]}"; do
  program=${missing[n]}
  package=k8s.io/kubernetes/cmd/$program
  [[ $program != etcd ]] || package=go.etcd.io/etcd/server/v3
  # Under its name only once it is complete, so that a build that was interrupted is not taken for a program.
  ../go.sh "$(printf 'controlplane: [%d/%d] building %-24s ' $((n + 1)) ${#missing[@]} "$program")" \
    build -o "bin/.$program.new" -ldflags "$flags" "$package"
  mv "bin/.$program.new" "bin/$program"
  echo "$inputs" >"bin/.$program.inputs"
done
echo "controlplane: done after $SECONDS s"

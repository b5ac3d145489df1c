#!/usr/bin/env bash
# The end-to-end suite on a cluster that kind makes for it and that is removed afterwards, unless KEEP is set. ROLES are those of its nodes: three,
# or one with ROLES=control-plane.
# KIND_NODE_IMAGE chooses the version of Kubernetes (kindest/node:...); kind's own choice if empty.
set -euo pipefail
cd "$(dirname "$0")/../.."
kind=$1
cluster=nodekeep-e2e
roles=${ROLES:-control-plane worker worker}

if ! command -v docker >/dev/null; then
	echo "kind: there is no docker here; make e2e-local needs none, make e2e takes a cluster of yours" >&2
	exit 1
fi
if ! docker info >/dev/null 2>&1; then
	echo "kind: docker is here, but no Docker engine answers (docker info says why); make e2e-local needs none, make e2e takes a cluster of yours" >&2
	exit 1
fi
if "$kind" get clusters 2>/dev/null | grep -qx "$cluster"; then
	echo "kind: there is a cluster $cluster already, which may be in use: $kind delete cluster --name $cluster removes it" >&2
	exit 1
fi

folder=$(mktemp -d)
remove() {
	if [[ ${KEEP:-} ]]; then
		echo "kind: the cluster is kept; export KUBECONFIG=$folder/kubeconfig; $kind delete cluster --name $cluster removes it"
		return
	fi
	"$kind" delete cluster --name "$cluster"
	rm -r "$folder"
}
trap remove EXIT

export KUBECONFIG=$folder/kubeconfig
cat >"$folder/cluster.yaml" <<-END
	kind: Cluster
	apiVersion: kind.x-k8s.io/v1alpha4
	nodes: [$(printf '{role: %s},' $roles)]
END
"$kind" create cluster --name "$cluster" --config "$folder/cluster.yaml" --wait 5m ${KIND_NODE_IMAGE:+--image "$KIND_NODE_IMAGE"}

platform=$(docker version --format '{{.Server.Os}}/{{.Server.Arch}}')
make --no-print-directory image PLATFORMS="$platform"
"$kind" load image-archive ".image/nodekeep-${platform/\//-}.tar" --name "$cluster"

version=$(make --no-print-directory -s version)
NODEKEEP_E2E_IMAGE=nodekeep:$version NODEKEEP_E2E_PULL_POLICY=Never make --no-print-directory e2e

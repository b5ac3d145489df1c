#!/bin/sh
# Plays the kubelet of a Node for the walk-through in docs/classification.md, with the identity of that kubelet.
set -eu

usage() {
	cat >&2 <<-END
		kubelet.sh register NODE CPU MEMORY [KUBECTL ARGUMENT...]  the kubelet creates its Node; no device plugin runs yet
		kubelet.sh reports NODE GPUS                               the device plugin runs, and the Node has been ready for hours
		kubelet.sh restarts NODE                                   the kubelet runs again, and its device plugin does not
	END
	exit 2
}

[ $# -ge 2 ] || usage
does=$1 node=$2
shift 2

# status GPUS SINCE: what the kubelet reports. `kubectl patch` reads first, which kubelets may not: the identity is that of the user.
status() {
	kubectl patch node "$node" --subresource=status --field-manager=kubelet --patch "{\"status\": {
		\"capacity\": {\"nvidia.com/gpu\": \"$1\"}, \"allocatable\": {\"nvidia.com/gpu\": \"$1\"},
		\"conditions\": [{\"type\": \"Ready\", \"status\": \"True\", \"reason\": \"KubeletReady\", \"lastTransitionTime\": \"$2\"}]}}"
}

case $does in
register)
	[ $# -ge 2 ] || usage
	cpu=$1 memory=$2
	shift 2
	kubectl create --as="system:node:$node" --as-group=system:nodes -f - "$@" <<-END
		apiVersion: v1
		kind: Node
		metadata: {name: $node, labels: {kubernetes.io/hostname: $node, kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
		status:
		  capacity: {cpu: $cpu, memory: $memory, pods: 110}
		  allocatable: {cpu: $cpu, memory: $memory, pods: 110}
		  conditions: [{type: Ready, status: "False", reason: KubeletNotReady}]
		  nodeInfo:
		    {machineID: machine-$node, systemUUID: system-$node, bootID: boot, kernelVersion: "6.8", osImage: Linux, architecture: amd64,
		     operatingSystem: linux, containerRuntimeVersion: "containerd://2.2", kubeletVersion: v1.36.3, kubeProxyVersion: ""}
	END
	;;
reports)
	[ $# -eq 1 ] || usage
	status "$1" 2026-01-01T00:00:00Z
	;;
restarts)
	[ $# -eq 0 ] || usage
	status 0 "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
	;;
*) usage ;;
esac

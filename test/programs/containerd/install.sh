#!/usr/bin/env bash
# containerd, runc and CNI plugins, with which test/e2e/local runs the pods of its kubelets. What is there already is used, of any distribution.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

missing() {
	missing=()
	command -v containerd >/dev/null && command -v ctr >/dev/null || missing+=(containerd)
	command -v runc >/dev/null || missing+=(runc)
	[[ -x /usr/lib/cni/ptp || -x /opt/cni/bin/ptp || -x /usr/libexec/cni/ptp ]] || missing+=(containernetworking-plugins)
}

missing
if ((${#missing[@]})) && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
	apt-get update -qq || true
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || true
	missing
fi
if ((${#missing[@]})); then
	echo "tests with real kubelets need ${missing[*]}: install them (Debian, as root: apt-get install ${missing[*]})" >&2
	exit 1
fi

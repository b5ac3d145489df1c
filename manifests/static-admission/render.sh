#!/usr/bin/env bash
# Reads what the chart renders, and writes its admission policies into mutating/nodekeep.yaml and validating/nodekeep.yaml of a folder, in
# the form in which an API server takes them from files: the names end in .static.k8s.io. A policy with a parameter, such as those of governance, cannot
# be such a file, and is left out. API servers may read the folder meanwhile: a file is replaced as a whole. Without any policy it fails and
# changes nothing, and if there would be none any more for a file that is there. For example:
#   helm template nodekeep manifests/chart --namespace nodekeep-system --kube-version 1.37 --values values.yaml | manifests/static-admission/render.sh FOLDER
set -euo pipefail
into=$1
mkdir -p "$into/mutating" "$into/validating"
work=$(mktemp -d "$into/.render-XXXXXX") # beside the files, so that mv is a rename
trap 'rm -rf "$work"' EXIT
awk -v into="$work" '
function flush(   kind, name) {
	if (match(document, /\nkind: (Mutating|Validating)AdmissionPolicy(Binding)?\n/)) {
		kind = substr(document, RSTART + 7, RLENGTH - 8)
		match(document, /\n  name: [^\n]+/)
		name = substr(document, RSTART + 9, RLENGTH - 9)
		if (document ~ /\n  (paramKind|paramRef):/) {
			print "left out, because it has a parameter: " kind " " name >"/dev/stderr"
		} else {
			sub(/\n  name: [^\n]+/, "&.static.k8s.io", document)
			sub(/\n  policyName: [^\n]+/, "&.static.k8s.io", document)
			file = into (kind ~ /^Mutating/ ? "/mutating" : "/validating")
			# An API server takes no document that has comments only.
			printf "%s%s", file in files ? "---" : "# Rendered from the chart by static-admission/render.sh.", document >file
			files[file] = 1
		}
	}
	document = "\n"
}
BEGIN { document = "\n" }
/^---$/ { flush(); next }
{ document = document $0 "\n" }
END { flush() }
'
[[ -e $work/mutating || -e $work/validating ]] || {
	echo "static-admission: stdin has no admission policy without a parameter; give what helm template prints" >&2
	exit 1
}
for kind in mutating validating; do
	[[ -e $work/$kind || ! -e $into/$kind/nodekeep.yaml ]] || {
		echo "static-admission: stdin has no policy for $into/$kind/nodekeep.yaml; nothing is changed. If its policies are to go, remove that file first" >&2
		exit 1
	}
done
for kind in mutating validating; do
	[[ ! -e $work/$kind ]] || mv "$work/$kind" "$into/$kind/nodekeep.yaml"
done

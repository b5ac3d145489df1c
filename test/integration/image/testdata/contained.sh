#!/bin/sh
# Runs the program of an unpacked image as a container would: its root is the image, read-only, and its user is the image's. Files that the
# arguments name are put in first, as a kubelet mounts them. The process keeps the pid of this script.
#   contained.sh ROOT UID:GID PROGRAM [ARGUMENT...]
set -eu
root=$1
for argument in "$@"; do
	if [ "$argument" != "$root" ] && [ -f "$argument" ]; then
		mkdir -p "$root$(dirname "$argument")"
		install -m 0444 "$argument" "$root$argument"
	fi
done
exec unshare --mount --propagation private sh -euc '
	root=$1 user=$2
	shift 2
	mount --bind "$root" "$root"
	mount -o remount,bind,ro "$root"
	exec chroot --userspec="$user" --groups= "$root" "$@"
' sh "$@"

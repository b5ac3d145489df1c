#!/usr/bin/env bash
# A Chromium that runs without a display, for the test that opens the report. It is there already on most desktops and CI runners.
set -euo pipefail
for name in "${NODEKEEP_CHROMIUM:-}" chromium chromium-browser google-chrome; do
	if [ -n "$name" ] && command -v "$name" >/dev/null && "$name" --version 2>/dev/null; then
		exit 0
	fi
done
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
	apt-get update -qq || true
	if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; then
		exec chromium --version
	fi
fi
echo "no Chromium found, so the page of the report is not opened: install chromium, or name one with NODEKEEP_CHROMIUM" >&2

#!/usr/bin/env bash
# Runs go with all arguments after the first, and shows it as one line: the first argument, how many modules go has downloaded, and
# the seconds that it took. What else go says follows.
set -euo pipefail
text=$1
shift

line() { # of what go says
  local modules=0 said='' line
  while IFS= read -r line; do
    if [[ $line != "go: downloading "* ]]; then
      said+=$line$'\n'
      continue
    fi
    modules=$((modules + 1))
    [[ ! -t 1 ]] || printf '\r%s%d modules downloaded' "$text" "$modules"
  done
  [[ ! -t 1 ]] || printf '\r%s' "$text"
  ((modules == 0)) || printf '%d modules downloaded, ' "$modules"
  printf '%d s\n%s' "$SECONDS" "$said"
}

printf '%s' "$text"
go "$@" 2>&1 | line

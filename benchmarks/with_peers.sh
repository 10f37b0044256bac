#!/usr/bin/env bash
# Runs a command with Python packages that travel as archives, where nothing can be installed.
#
#   benchmarks/with_peers.sh FOLDER COMMAND...
#
# FOLDER holds *.tar.xz of what pip would put into site-packages, for example of nvidia-npp and
# cvcuda-cu13. What is in none of them is left out of the comparison, which says so.
set -euo pipefail
folder=${1:?a folder of archives}
shift
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
for archive in "$folder"/*.tar.xz; do
  python3 -m tarfile --filter data -e "$archive" "$site" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} "$@"

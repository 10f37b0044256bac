#!/usr/bin/env bash
# Runs a command with Python packages from archives, where nothing can be installed.
#
#   benchmarks/with_peers.sh FOLDER COMMAND...
#
# FOLDER holds *.tar.xz files of what pip installs into site-packages, for example of nvidia-npp and
# cvcuda-cu13. Comparisons report the libraries that are missing and leave them out.
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

#!/usr/bin/env bash
# Runs a command with Python packages from archives, on machines where nothing can be installed.
#
#   benchmarks/with_peers.sh FOLDER COMMAND...
#
# FOLDER contains *.tar.xz files of packages as pip installs them into site-packages, for example
# nvidia-npp and cvcuda-cu13. Comparisons report missing libraries and leave them out.
set -euo pipefail
folder=${1:?must be a folder of archives}
shift
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
for archive in "$folder"/*.tar.xz; do
  python3 -m tarfile --filter data -e "$archive" "$site" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} "$@"

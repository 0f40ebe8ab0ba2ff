#!/usr/bin/env bash
# Writes the bill of materials of an environment that fpmonitor is installed in (CycloneDX), and asks for known faults of
# what it holds: `scripts/supply.sh ENVIRONMENT fpmonitor.cdx.json`. Exit code 1: a fault is known. Where the data of faults
# cannot be reached, it says so and goes on: that is no sign that there are none.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=$1 output=$2
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet cyclonedx-bom pip-audit
"$tools/venv/bin/cyclonedx-py" environment "$environment/bin/python" --pyproject pyproject.toml -o "$output"
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
status=0
"$tools/venv/bin/pip-audit" --progress-spinner off --path "$packages" > "$tools/found" 2> "$tools/errors" || status=$?
cat "$tools/found"
skipped=$(grep -c "could not be audited" "$tools/found" || true)
[ "$skipped" -eq 0 ] || echo "pip-audit: $skipped packages could not be looked up, so nothing is known of their faults" >&2
cat "$tools/errors" >&2
if [ "$status" -ne 0 ] && grep -Eqi "connection|resolve|unreachable|timed out|proxy|ServiceError|HTTPError" "$tools/errors"; then
    echo "pip-audit: its data cannot be reached, so nothing is known of faults" >&2
    exit 0
fi
exit "$status"

#!/bin/sh
# Runs the headless benchmark on a connected device and writes the report: tools/benchmark.sh [RUNS] [THREADS] >report.json
# ADB chooses another adb, ANDROID_SERIAL the device.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd -P)
adb=${ADB:-adb}
application=$(sed -n 's/^ *applicationId = "\(.*\)"$/\1/p' "$here/app/build.gradle.kts")
run_id=run-$(date +%s)-$$
log=$("$adb" shell am instrument -w -r -e runs "${1:-100}" -e threads "${2:-0}" -e run_id "$run_id" \
    "$application/dev.edgex.sample.BenchInstrumentation")
case $log in
*"edgex_run_id=$run_id"*) ;;
*)
    printf '%s\n' "$log" | grep -v edgex_chunk= >&2
    echo "The benchmark failed." >&2
    exit 1
    ;;
esac
exec "$adb" exec-out cat "/sdcard/Android/data/$application/files/edgex/report-$run_id.json"

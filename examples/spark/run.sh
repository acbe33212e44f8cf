#!/usr/bin/env bash
# A cluster on this machine, a release made on it by the command and one by spark-submit, the cluster stopped.
#   bash examples/spark/run.sh [FOLDER]        FOLDER must not exist; default: spark-example
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="${1:-spark-example}"
[ -e "$folder" ] && { echo "$folder exists; name another folder" >&2; exit 2; }
mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
export SHOAL_LEDGER="$folder/ledger.sqlite"

echo "starting a master and two workers"
trap 'python "$here/cluster.py" stop "$folder/cluster"' EXIT
master="$(python "$here/cluster.py" start "$folder/cluster")"
echo "the cluster is at $master"

shoal simulate town --users 20000 --out "$folder/town"
shoal ledger create town --epsilon 4 --delta 1e-6
shoal density run --plan "$folder/town/density.toml" --out "$folder/release" --owner "$folder/owner" \
  --engine spark --spark-conf "spark.master=$master" --spark-conf spark.executor.memory=1g \
  --spark-conf spark.driver.host=127.0.0.1

PYSPARK_PYTHON="$(command -v python)" spark-submit --master "$master" --executor-memory 1g \
  --conf spark.driver.host=127.0.0.1 --conf spark.log.level=OFF \
  "$here/release.py" "$folder/town" "$folder/release-submitted" 2> "$folder/spark-submit.log" ||
  { tail -n 20 "$folder/spark-submit.log" >&2; exit 1; }
shoal ledger show town

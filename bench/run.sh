#!/usr/bin/env bash
# run.sh [OUT]: measures "proa server" from outside with the load generator, on
# loopback, on an empty data directory, and writes JSON lines to OUT. Every run
# is bounded; the server stops with the script. The figures are in
# docs/benchmarks.md beside those of kube-apiserver for the same work.
set -eu
cd "$(dirname "$0")/.."
out=${1:-bench.jsonl}
dir=$(mktemp -d)
make -s build
go build -o "$dir/loadgen" ./bench/loadgen

began=$(date +%s%N)
bin/proa server --data-dir "$dir/data" --listen 127.0.0.1:0 --log-level warn & server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$dir"' EXIT
kubeconfig=$dir/data/admin.kubeconfig
until [ -s "$kubeconfig" ] && kubectl --kubeconfig "$kubeconfig" get --raw /readyz >/dev/null 2>&1; do sleep 0.01; done
echo "start to /readyz (with kubectl's own start): $(( ($(date +%s%N) - began) / 1000000 )) ms"
sleep 5
echo "idle memory: $(awk '/VmRSS/ {print $2 / 1024}' /proc/$server/status) MiB"

lg() { local mode=$1; shift; "$dir/loadgen" "$mode" --kubeconfig "$kubeconfig" --pid proa=$server --out "$out" --runs 3 "$@"; }
lg create --kind configmaps --n 4000
lg create --kind pods --n 4000
lg get --kind pods --fill 1000 --n 8000
lg update --n 4000
lg patch --patch-type smp --kind pods --n 2000
lg delete --n 2000
lg list --kind pods --fill 10000 --list-variants json,proto,table,meta,selector1pct --list-reps 5
lg watch --watchers 1,100,1000 --duration 5s
echo "memory after: $(awk '/VmRSS/ {print $2 / 1024}' /proc/$server/status) MiB"

#!/usr/bin/env bash
# run.sh [OUT]: measures "proa server" from outside with the load generator, on
# loopback, on empty data directories, and appends JSON lines to OUT. Every run
# is bounded; the servers stop with the script. The figures are in
# docs/benchmarks.md beside those of kube-apiserver for the same work.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-bench.jsonl}")
dir=$(mktemp -d)
server=
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; server=; } || true; }
trap 'stop; rm -rf "$dir"' EXIT
make -s build
go build -o "$dir/loadgen" ./bench/loadgen
rss() { awk '/VmRSS/ {printf "%.0f MiB", $2 / 1024}' "/proc/$server/status"; }

# serve NAME FLAGS...: starts a server of its own and waits until it is ready.
serve() {
  stop
  local name=$1; shift
  kubeconfig=$dir/$name/admin.kubeconfig
  bin/proa server --data-dir "$dir/$name" --listen 127.0.0.1:0 --log-json "$@" 2>"$dir/$name.log" & server=$!
  until grep -q '"message":"ready"' "$dir/$name.log"; do sleep 0.02; done
  grep -o '"took_ms":[0-9.]*' "$dir/$name.log" | sed "s/^/$name: ready, /"
}
lg() { local mode=$1; shift; "$dir/loadgen" "$mode" --kubeconfig "$kubeconfig" --pid proa=$server --out "$out" "$@"; }

serve api
sleep 10
echo "idle memory: $(rss)"
lg create --kind configmaps --n 4000 --runs 3
lg create --kind pods --n 4000 --runs 3
lg get --kind pods --fill 1000 --n 8000 --runs 3
lg update --n 4000 --runs 3
lg patch --patch-type smp --kind pods --n 2000 --runs 3
lg delete --n 2000 --runs 3
lg list --kind pods --fill 10000 --list-variants json,proto,table,meta,selector1pct --runs 3
lg watch --watchers 1,100,1000 --duration 5s --runs 3
echo "memory after all of it: $(rss)"

serve nodes-1000 --simulate-nodes 1000
sleep 5
lg deploy --n 1000 --runs 3
lg sched --n 2000
serve nodes-5000 --simulate-nodes 5000
sleep 10
lg sched --n 2000

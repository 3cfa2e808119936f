#!/usr/bin/env bash
# policies.sh [OUT]: measures the creation of pods under one rule (all containers
# have a memory limit) that nobody enforces, or a CEL policy, a plugin in C,
# AssemblyScript, Rust or Go, or a webhook on loopback: one after the other, on
# servers of their own. Appends JSON lines to OUT and prints their medians.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-policies.jsonl}")
dir=$(mktemp -d)
server= hook=
stop() { for p in $hook $server; do kill "$p" 2>/dev/null && wait "$p" 2>/dev/null || true; done; server= hook=; }
trap 'stop; rm -rf "$dir"' EXIT
make -s build
go build -o "$dir/loadgen" ./bench/loadgen
example=examples/plugins/require-limits
rules='[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"],"scope":"*"}]'

k() { kubectl --kubeconfig "$kubeconfig" "$@" >"$dir/kubectl.log" 2>&1 || { cat "$dir/kubectl.log"; return 1; }; }

install_none() { :; }
install_cel() {
  k apply -f - <<EOF
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: require-limits}
spec:
  matchConstraints: {resourceRules: $rules}
  validations:
    - expression: >-
        object.spec.containers.all(c, has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits)
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: require-limits}
spec: {policyName: require-limits, validationActions: [Deny]}
EOF
}
install_plugin() { # folder
  bin/proa plugin build "$1" -o "$dir/plugin.wasm"
  bin/proa plugin push require-limits "$dir/plugin.wasm" --kubeconfig "$kubeconfig"
  k apply -f $example/plugin.yaml
  k wait --for=condition=Ready --timeout=60s admissionplugin/require-limits
}
install_c() { install_plugin $example/c; }
install_assemblyscript() { install_plugin $example/assemblyscript; }
install_rust() { install_plugin $example/rust; }
install_go() { install_plugin $example; }
install_webhook() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=webhook \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$dir/key.pem" -out "$dir/cert.pem" 2>/dev/null
  "$dir/loadgen" webhook --addr 127.0.0.1:18443 --cert "$dir/cert.pem" --key "$dir/key.pem" & hook=$!
  k apply -f - <<EOF
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: require-limits}
webhooks:
  - name: limits.example.test
    admissionReviewVersions: [v1]
    sideEffects: None
    rules: $rules
    clientConfig: {url: "https://127.0.0.1:18443/validate", caBundle: $(base64 -w0 "$dir/cert.pem")}
EOF
}

# refuses waits until the rule is enforced, before anything is measured.
refuses() {
  for _ in $(seq 100); do
    k run refused --image=example.test/x --dry-run=server >/dev/null || return 0
    sleep 0.1
  done
  echo "$1 does not refuse a pod without limits"; return 1
}

for v in none cel c assemblyscript rust go webhook; do
  stop
  kubeconfig=$dir/$v/admin.kubeconfig
  bin/proa server --data-dir "$dir/$v" --listen 127.0.0.1:0 --log-json 2>"$dir/$v.log" & server=$!
  until grep -q '"message":"ready"' "$dir/$v.log"; do sleep 0.02; done
  "install_$v"
  [ $v = none ] || refuses $v
  "$dir/loadgen" create --kind pods --n 4000 --runs 3 --variant "$v" --kubeconfig "$kubeconfig" \
    --pid "proa=$server${hook:+,webhook=$hook}" --out "$out"
done
"$dir/loadgen" table "$out"

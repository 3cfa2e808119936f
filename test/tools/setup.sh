#!/usr/bin/env bash
# setup.sh: installs or builds what the demo and the tests need beside Go.
# PROA_CACHE is where built things are kept (default: .cache of the checkout).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${PROA_CACHE:-$here/../../.cache}
start=$(date +%s)
step() { printf '[%4ss] %s\n' $(($(date +%s) - start)) "$*"; }

missing=
need() { command -v "$1" >/dev/null || missing="$missing $2"; }
need ip iproute2
need nft nftables
need nsenter util-linux
need gcc gcc
need curl curl
need openssl openssl
# The compilers of the languages that plugins are written in.
need clang-14 clang-14
need wasm-ld-14 lld-14
need node nodejs
need npm npm
[ -d /usr/lib/rustlib/wasm32-unknown-unknown ] || missing="$missing rustc libstd-rust-dev-wasm32"
[ -e /usr/include/seccomp.h ] || missing="$missing libseccomp-dev"
if [ -n "$missing" ]; then
  step "installing$missing"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

step "kubectl"
"$here/kubectl.sh" "$cache/bin"
step "AssemblyScript"
"$here/asc.sh" "$cache"
step "container runtime (about two minutes the first time)"
"$here/../hosts/build.sh" >/dev/null
step "set-up done"

#!/bin/bash
# Builds the container runtime that the test hosts use: containerd with its
# shim and ctr, runc (static, with seccomp) and four CNI plugins, each from the
# Go module of a pinned version. Prints the folder on its last line.
#
#   test/hosts/build.sh [--print]
#
# The result is cached by version in $PROA_CACHE, which is .cache in the
# checkout if unset; a second run takes no time. --print only says where.
set -euo pipefail

containerd=v2.4.2
runc=v1.5.3
cni=v1.10.0

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${PROA_CACHE:-$root/.cache}
out=$cache/runtime/containerd-$containerd-runc-$runc-cni-$cni-$(go env GOARCH)

if [ "${1:-}" = --print ] || [ -e "$out/.complete" ]; then
	echo "$out"
	exit 0
fi
mkdir -p "$cache/runtime"
exec 9>"$cache/runtime/.lock"
flock 9 # another build of the same may be under way
if [ -e "$out/.complete" ]; then
	echo "$out"
	exit 0
fi

began=$SECONDS
step() { printf '%4ds  %s\n' $((SECONDS - began)) "$*" >&2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
run() { # run CMD...: keeps its output for the case that it fails
	if ! nice "$@" >"$log" 2>&1; then
		cat "$log" >&2
		echo "failed: $*" >&2
		exit 1
	fi
}
module() { # module NAME: an empty module of its own, so that ours stays small
	mkdir -p "$work/$1"
	cd "$work/$1"
	printf 'module scratch\n\ngo 1.26\n' >go.mod
}

missing=()
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
[ -e /usr/include/seccomp.h ] || missing+=(libseccomp-dev)
command -v ip >/dev/null || missing+=(iproute2)
command -v nsenter >/dev/null || missing+=(util-linux)
command -v nft >/dev/null || missing+=(nftables) # for host ports
if [ ${#missing[@]} -gt 0 ]; then
	step "installing ${missing[*]}"
	apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 ||
		{ run apt-get update && run apt-get install -y --no-install-recommends "${missing[@]}"; }
fi

export GOFLAGS=-trimpath GOWORK=off
tmp=$work/out
mkdir -p "$tmp/cni"

step "fetching containerd $containerd"
module containerd
c=github.com/containerd/containerd/v2
run go get $c/cmd/containerd@$containerd $c/cmd/containerd-shim-runc-v2@$containerd $c/cmd/ctr@$containerd
step "building containerd (about two minutes the first time)"
run env CGO_ENABLED=0 go build -ldflags "-s -w -X $c/version.Version=$containerd" -o "$tmp/" \
	$c/cmd/containerd $c/cmd/containerd-shim-runc-v2 $c/cmd/ctr

step "building runc $runc"
module runc
run go get github.com/opencontainers/runc@$runc
run env CGO_ENABLED=1 go build -tags 'seccomp netgo osusergo' \
	-ldflags "-s -w -X main.version=${runc#v} -extldflags -static" -o "$tmp/runc" github.com/opencontainers/runc

step "building CNI plugins $cni"
module cni
plugins=()
for p in main/bridge main/loopback ipam/host-local meta/portmap; do
	run go get github.com/containernetworking/plugins/plugins/$p@$cni
	plugins+=(github.com/containernetworking/plugins/plugins/$p)
done
run env CGO_ENABLED=0 go build -ldflags '-s -w' -o "$tmp/cni/" "${plugins[@]}"

rm -rf "$out"
touch "$tmp/.complete"
mv "$tmp" "$out"
step "done"
echo "$out"

#!/bin/sh
# Copies the kits that "proa plugin new" hands out: go:embed cannot reach into
# the module of the kits. Run by go generate; a test compares.
set -eu
cd "$(dirname "$0")"
rm -rf kits
mkdir -p kits/c kits/rust/proa-guest/src kits/assemblyscript/proa
cp ../guest/c/proa.h kits/c/
cp ../guest/rust/Cargo.toml kits/rust/proa-guest/
cp ../guest/rust/src/*.rs kits/rust/proa-guest/src/
cp ../guest/assemblyscript/*.ts kits/assemblyscript/proa/

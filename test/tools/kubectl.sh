#!/usr/bin/env bash
# kubectl.sh DIR: puts a kubectl into DIR, unless the machine has one. It is
# built from the published Go modules, in a module of its own.
set -eu
out=$(realpath -m "$1")
command -v kubectl >/dev/null && exit 0
[ -x "$out/kubectl" ] && exit 0
version=v0.37.2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
cat > "$work/main.go" <<'GO'
// Command kubectl is upstream's kubectl.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
GO
cd "$work"
printf 'module kubectl\n\ngo 1.26.0\n' > go.mod
go get "k8s.io/kubectl@$version" "k8s.io/component-base@$version" 2>/dev/null
go mod tidy 2>/dev/null
v=k8s.io/component-base/version
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X $v.gitVersion=v1.${version#v0.} -X $v.gitMajor=1 -X $v.gitMinor=37" -o "$out/kubectl" .

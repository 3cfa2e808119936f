#!/usr/bin/env bash
# asc.sh CACHE: puts the compiler of AssemblyScript into CACHE/bin, from its npm
# package in a pinned version.
set -eu
cache=$(realpath -m "$1")
version=0.28.20
home=$cache/assemblyscript-$version
[ -x "$cache/bin/asc" ] && [ -e "$home/.complete" ] && exit 0
mkdir -p "$home" "$cache/bin"
echo '{"private": true}' > "$home/package.json"
(cd "$home" && npm install --silent --no-audit --no-fund --no-save "assemblyscript@$version")
printf '#!/bin/sh\nexec node "%s/node_modules/assemblyscript/bin/asc.js" "$@"\n' "$home" > "$cache/bin/asc"
chmod +x "$cache/bin/asc"
touch "$home/.complete"

#!/bin/sh
# verifier.js from what Coq extracted: build_js.sh CHECKER.ML OUT
set -e
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1" "$work/checker.ml"
cp "$here/zz_js.ml" "$work/zz.ml"
cp "$here/js.ml" "$here/stubs.c" "$here/zz.js" "$work/"
out=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$work"
ocamlfind ocamlc -w -a -custom stubs.c zz.ml checker.ml js.ml -o verifier.byte
js_of_ocaml --opt 3 zz.js verifier.byte -o verifier.js 2>/dev/null
cp verifier.js "$out"

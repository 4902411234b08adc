#!/bin/sh
# check.sh ARCHIVE SAMPLE: unpacks the archive elsewhere and does the main job there, with nothing on
# the path but what a shell script needs.

set -eu
archive=$1
sample=$(cd "$(dirname -- "$2")" && pwd)/$(basename -- "$2")

place=$(mktemp -d "${TMPDIR:-/tmp}/foldmax dist.XXXXXX")
trap 'rm -rf "$place"' EXIT
mkdir "$place/tools" "$place/work"
for tool in sh readlink dirname; do
  ln -s "$(command -v $tool)" "$place/tools/$tool"
done
tar -xzf "$archive" -C "$place/work"
set -- "$place"/work/*/bin/foldmax
ln -s "$1" "$place/foldmax"

# Runs the command through a link, without any variable of this shell.
foldmax() {
  (cd "$place/work" && env -i PATH="$place/tools" HOME="$place" "$place/foldmax" "$@")
}

fail() {
  echo "check.sh: $*" >&2
  exit 1
}

if PATH="$place/tools" command -v java >/dev/null; then
  fail "there is a java on the path"
fi
foldmax --version
foldmax info
foldmax attend "$sample" --check --out out.safetensors
[ -s "$place/work/out.safetensors" ] || fail "attend wrote nothing"
# The name of a tensor, whatever is in the file: an error of ours, not of the runtime's.
if foldmax softmax out.safetensors --tensor none >"$place/log" 2>&1; then
  fail "softmax found a tensor that is not there"
fi
grep -q "none" "$place/log" || fail "the error does not name the tensor: $(cat "$place/log")"
foldmax bench --seconds 1 --threads 1 --out "$place/work"
[ -s "$place/work/bench.png" ] || fail "bench drew nothing"
bash -n "$place"/work/*/share/bash-completion/completions/foldmax
grep -q -e "--softcap" "$place"/work/*/share/bash-completion/completions/foldmax ||
  fail "the completion does not know --softcap"
echo "the archive works: $archive"

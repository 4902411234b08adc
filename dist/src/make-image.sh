#!/bin/sh
# make-image.sh JDK MODULES IMAGE: links a Java runtime with the modules in the folder MODULES, and
# the commands bin/foldmax and its completion.

set -eu
jdk=$1
modules=$2
image=$3

rm -rf "$image"
mkdir -p "$(dirname -- "$image")"
# foldmax.cuda is found as a service, which nothing requires. Vector kernels need the incubator.
"$jdk/bin/jlink" \
  --module-path "$modules" \
  --add-modules dev.foldmax.cli,dev.foldmax.cuda,jdk.incubator.vector \
  --strip-debug --no-header-files --no-man-pages --compress zip-6 \
  --output "$image"

cat >"$image/bin/foldmax" <<'EOF'
#!/bin/sh
# Runs the foldmax command on the Java runtime beside it.
#
#   FOLDMAX_JAVA_OPTS  more options for the Java virtual machine, such as -Xmx8g

set -eu
self=$0
while [ -L "$self" ]; do
  link=$(readlink "$self")
  case $link in
    /*) self=$link ;;
    *) self=$(dirname -- "$self")/$link ;;
  esac
done
# The options may be several, so they are split.
# shellcheck disable=SC2086
exec "$(dirname -- "$self")/java" \
  --add-modules jdk.incubator.vector \
  --enable-native-access=dev.foldmax,dev.foldmax.cuda \
  ${FOLDMAX_JAVA_OPTS-} \
  --module dev.foldmax.cli/dev.foldmax.cli.Main "$@"
EOF
chmod 755 "$image/bin/foldmax"

completions=$image/share/bash-completion/completions
mkdir -p "$completions"
"$image/bin/foldmax" generate-completion >"$completions/foldmax" 2>"$image/../completion.log" || {
  cat "$image/../completion.log" >&2
  exit 1
}

#!/bin/sh
# make-image.sh JDK MODULES IMAGE: links a Java runtime, puts the folder MODULES beside it, and makes
# bin/foldmax and its completion.

set -eu
jdk=$1
modules=$2
image=$3

rm -rf "$image"
mkdir -p "$(dirname -- "$image")"
# The runtime holds the JDK's modules alone: jlink refuses libraries that are no modules of their own.
"$jdk/bin/jlink" \
  --add-modules java.desktop,java.logging,jdk.incubator.vector,jdk.management \
  --strip-debug --no-header-files --no-man-pages --compress zip-6 \
  --output "$image"
cp -R "$modules" "$image/modules"

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
home=$(dirname -- "$self")/..
exec "$home/bin/java" \
  --add-modules jdk.incubator.vector \
  --enable-native-access=dev.foldmax,dev.foldmax.cuda \
  ${FOLDMAX_JAVA_OPTS-} \
  --module-path "$home/modules" \
  --module dev.foldmax.cli/dev.foldmax.cli.Main "$@"
EOF
chmod 755 "$image/bin/foldmax"

completions=$image/share/bash-completion/completions
mkdir -p "$completions"
"$image/bin/foldmax" generate-completion >"$completions/foldmax" 2>"$image/../completion.log" || {
  cat "$image/../completion.log" >&2
  exit 1
}

# Finds a JDK that can build and run Foldmax and exports it as JAVA_HOME. To be sourced by a POSIX
# shell; ends the shell with status 2, and says what to install, when there is none.
#
# JAVA_HOME comes first, then the java on PATH, then the folders where installers put JDKs. Among
# those a JDK 25 is taken before a later one, because the incubating Vector API may differ there.
# FOLDMAX_JDK_PATH, a list of folders separated by colons, replaces all of these places; each
# folder is a JDK or holds JDKs.
#
# Versions are read from each JDK's release file: starting every java would take a second or so.

# Reads the version of the JDK at $1 into jdk_version, jdk_major and jdk_patch. Fails when there is
# no JDK with a compiler at $1, or when it is too old.
foldmax_read_jdk() {
  [ -x "$1/bin/javac" ] && [ -r "$1/release" ] || return 1
  jdk_version=
  while IFS='=' read -r jdk_key jdk_value; do
    if [ "$jdk_key" = JAVA_VERSION ]; then
      jdk_version=${jdk_value#\"}
      jdk_version=${jdk_version%%\"*}
    fi
  done <"$1/release"

  # "25", "25.0.3" and "26-ea" all occur.
  jdk_major=${jdk_version%%[!0-9]*}
  case $jdk_version in
    *.*.*)
      jdk_patch=${jdk_version#*.*.}
      jdk_patch=${jdk_patch%%[!0-9]*}
      ;;
    *) jdk_patch=0 ;;
  esac
  [ "${jdk_major:-0}" -ge 25 ]
}

# Keeps the best of the JDKs given, in best_home, best_major and best_patch.
foldmax_consider_jdks() {
  for jdk_home in "$@"; do
    foldmax_read_jdk "$jdk_home" || continue
    if [ -z "$best_home" ] || [ "$jdk_major" -lt "$best_major" ] ||
      { [ "$jdk_major" -eq "$best_major" ] && [ "${jdk_patch:-0}" -gt "$best_patch" ]; }; then
      best_home=$jdk_home best_major=$jdk_major best_patch=${jdk_patch:-0} best_version=$jdk_version
    fi
  done
}

best_home=
if [ -n "${FOLDMAX_JDK_PATH-}" ]; then
  jdk_rest=$FOLDMAX_JDK_PATH:
  while [ -n "$jdk_rest" ]; do
    jdk_folder=${jdk_rest%%:*}
    jdk_rest=${jdk_rest#*:}
    [ -z "$jdk_folder" ] || foldmax_consider_jdks "$jdk_folder" "$jdk_folder"/*
  done
else
  foldmax_consider_jdks "${JAVA_HOME-}"
  if [ -z "$best_home" ] && jdk_java=$(command -v java); then
    jdk_java=$(readlink -f "$jdk_java" 2>/dev/null) || jdk_java=
    foldmax_consider_jdks "${jdk_java%/bin/java}"
  fi
  if [ -z "$best_home" ]; then
    foldmax_consider_jdks \
      /usr/lib/jvm/* \
      /usr/java/* \
      /opt/* \
      /opt/java/* \
      "${HOME-}"/.sdkman/candidates/java/* \
      "${HOME-}"/.jdks/* \
      "${HOME-}"/.gradle/jdks/* \
      "${HOME-}"/.asdf/installs/java/* \
      "${HOME-}"/.local/share/mise/installs/java/* \
      "${HOME-}"/Library/Java/JavaVirtualMachines/*/Contents/Home \
      /Library/Java/JavaVirtualMachines/*/Contents/Home \
      /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
      /usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home \
      /home/linuxbrew/.linuxbrew/opt/openjdk*/libexec
  fi
fi

if [ -z "$best_home" ]; then
  cat >&2 <<'END'
Foldmax needs a JDK, version 25.0.3 or later, and found none. Install one, for example:
  Debian, Ubuntu    sudo apt install openjdk-25-jdk
  macOS             brew install openjdk@25
  SDKMAN            sdk list java, then sdk install java with a version that it lists
  anywhere          Eclipse Temurin 25 from https://adoptium.net
or set JAVA_HOME to one that lies elsewhere.
END
  exit 2
fi
if [ "$best_major" -eq 25 ] && [ "$best_patch" -lt 3 ]; then
  echo "foldmax: JDK $best_version can corrupt arrays lent to native code;" \
    "25.0.3 or later is recommended" >&2
fi
JAVA_HOME=$best_home
export JAVA_HOME

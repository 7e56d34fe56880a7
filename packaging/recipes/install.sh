#!/bin/sh
# Installs jitlat @VERSION@ from its release, for this user, or for all users if root runs it:
#
#   curl -fsSL https://github.com/jitlat/jitlat/releases/download/v@VERSION@/install.sh | sh
#   sh install.sh [--prefix FOLDER] [--from ADDRESS|FOLDER] [--downgrade]
#
# --prefix FOLDER  installs into FOLDER/bin and FOLDER/share (default: ~/.local; for root /usr/local)
# --from ADDRESS   takes the files from a mirror, or from a folder of this host
# --downgrade      replaces a newer version, too
#
# The signature of the checksums is verified with the project's key, which is below, by minisign or by OpenSSL 3; then the checksum of the
# archive. Nothing is installed if either is missing or wrong. Needs curl or wget, tar, gzip. packaging/recipes/make fills in what is between @.
set -eu

version='@VERSION@'
key='@KEY@'

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" > /dev/null 2>&1; }

# archive_for SYSTEM: the name of the archive for `uname -s`-`uname -m`.
archive_for() {
    case $1 in
    # @SYSTEMS@
    *) fail "there is no program for $1 in jitlat $version: docs/guide/installing.md says how to build it from source" ;;
    esac
}

# fetch NAME: fetches a file of the release into the current folder.
fetch() {
    case $from in
    *://*)
        if has curl; then
            curl -fsSL --retry 2 -o "$1" "$from/$1"
        elif has wget; then
            wget -q -O "$1" "$from/$1"
        else
            fail "neither curl nor wget is installed"
        fi
        ;;
    *) cp "$from/$1" "$1" ;;
    esac || fail "cannot fetch $1 from $from"
}

# ed25519 SIGNATURE FILE: succeeds if a signature of 64 bytes over a file was made with the key in key.der.
ed25519() {
    openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in "$2" -sigfile "$1" > /dev/null 2>&1
}

# The signature of SHA256SUMS as minisign checks it, by OpenSSL: of the BLAKE2b hash of the file, and of that signature with the comment.
verify_with_openssl() {
    printf '%s\n' "$key" | openssl base64 -d -A > key.raw
    # An Ed25519 key as X.509 has it: this prefix, and the 32 bytes after the algorithm and the number of minisign's key.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && tail -c 32 key.raw; } > key.der
    sed -n 2p SHA256SUMS.minisig | openssl base64 -d -A > signature
    [ "$(head -c 2 signature)" = ED ] && [ "$(wc -c < signature)" -eq 74 ] || return 1
    tail -c 64 signature > over_digest
    openssl dgst -blake2b512 -binary SHA256SUMS > digest
    ed25519 over_digest digest || return 1
    sed -n 4p SHA256SUMS.minisig | openssl base64 -d -A > over_comment
    sed -n '3s/^trusted comment: //p' SHA256SUMS.minisig | tr -d '\n' | cat over_digest - > commented
    ed25519 over_comment commented
}

verify_signature() {
    if has minisign; then
        minisign -V -q -P "$key" -m SHA256SUMS -x SHA256SUMS.minisig > minisign.log 2>&1
    elif has openssl && openssl pkeyutl -help 2>&1 | grep -q -e -rawin; then
        verify_with_openssl
    else
        fail "minisign or OpenSSL 3 must be installed to check the signature (Debian: apt-get install minisign)"
    fi || fail "the signature of SHA256SUMS is not that of the project's key: nothing was installed"
    # An older release has a valid signature, too.
    case $(sed -n 3p SHA256SUMS.minisig) in
    "trusted comment: jitlat $version revision "*) ;;
    *) fail "the signature is of another version than $version: nothing was installed" ;;
    esac
}

# verify_checksum FILE: compares a file with its line in SHA256SUMS.
verify_checksum() {
    expected=$(awk -v file="$1" '$2 == file { print $1 }' SHA256SUMS)
    [ -n "$expected" ] || fail "SHA256SUMS has no checksum of $1: nothing was installed"
    if has sha256sum; then
        actual=$(sha256sum "$1")
    elif has shasum; then
        actual=$(shasum -a 256 "$1")
    else
        actual=$(openssl dgst -r -sha256 "$1")
    fi
    [ "${actual%% *}" = "$expected" ] || fail "$1 differs from its checksum: nothing was installed"
}

# newer A B: succeeds if version A is newer than version B.
newer() {
    awk -v a="$1" -v b="$2" 'BEGIN {
        split(a, x, /[.~-]/); split(b, y, /[.~-]/)
        for (i = 1; i <= 3; i++) if (x[i] + 0 != y[i] + 0) exit !(x[i] + 0 > y[i] + 0)
        exit 1
    }'
}

# stage FILE FOLDER MODE: copies a file into its folder under another name, so that every folder is known to be writable before anything is installed.
stage() {
    target=$2/${1##*/}
    [ ! -d "$target" ] || fail "$target is a folder: nothing was installed"
    staged="$staged$2/.${1##*/}.new
"
    if ! { mkdir -p "$2" && cp "$1" "$2/.${1##*/}.new" && chmod "$3" "$2/.${1##*/}.new"; }; then
        fail "cannot write to $2: nothing was installed; name another folder with --prefix"
    fi
}

# install_staged: gives all staged files their names, by renaming, so that a running program is not overwritten. The program is the last.
install_staged() {
    printf '%s' "$staged" | while IFS= read -r new_file; do
        name=${new_file##*/.}
        mv -f "$new_file" "${new_file%/*}/${name%.new}" || exit 1
    done || fail "cannot write to $prefix: not all files were installed; run the script again"
    staged=
}

remove_temporary() {
    rm -rf "$work"
    printf '%s' "$staged" | while IFS= read -r new_file; do rm -f "$new_file"; done
}

main() {
    from="https://github.com/jitlat/jitlat/releases/download/v$version"
    downgrade=
    if [ "$(id -u)" = 0 ]; then
        prefix=/usr/local
    elif [ -n "${TERMUX_VERSION:-}" ]; then
        prefix=${PREFIX:-${HOME:-}/.local}
    else
        prefix=${HOME:+$HOME/.local}
    fi
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix | --from)
            [ $# -ge 2 ] || fail "$1 needs a value"
            [ -n "$2" ] || fail "$1 needs a value, not an empty one"
            if [ "$1" = --from ]; then from=${2%/}; else prefix=$2; fi
            shift
            ;;
        --downgrade) downgrade=yes ;;
        *) fail "unknown argument '$1': [--prefix FOLDER] [--from ADDRESS|FOLDER] [--downgrade]" ;;
        esac
        shift
    done
    [ -n "$prefix" ] || fail "HOME is not set: name a folder with --prefix"
    case $from in *://* | /*) ;; *) from=$PWD/$from ;; esac
    case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac

    archive=$(archive_for "$(uname -s)-$(uname -m)")
    old=
    if [ -x "$prefix/bin/jitlat" ]; then
        old=$("$prefix/bin/jitlat" --version 2> /dev/null) || old='jitlat of an unknown version'
        if [ -z "$downgrade" ] && newer "${old#jitlat }" "$version"; then
            fail "$prefix/bin/jitlat is $old, newer than $version: --downgrade replaces it"
        fi
    fi

    staged=
    work=$(mktemp -d)
    trap remove_temporary EXIT
    trap 'exit 1' HUP INT TERM PIPE
    cd "$work"
    fetch SHA256SUMS
    fetch SHA256SUMS.minisig
    verify_signature
    fetch "$archive"
    verify_checksum "$archive"
    tar xzf "$archive" || fail "$archive cannot be unpacked"
    cd "${archive%.tar.gz}"
    for page in man/*; do
        [ ! -f "$page" ] || stage "$page" "$prefix/share/man/man1" 644
    done
    stage completions/jitlat "$prefix/share/bash-completion/completions" 644
    stage completions/_jitlat "$prefix/share/zsh/site-functions" 644
    stage completions/jitlat.fish "$prefix/share/fish/vendor_completions.d" 644
    stage jitlat "$prefix/bin" 755
    # Where it will be, because programs of a temporary folder may not be allowed to run.
    new=$("$prefix/bin/.jitlat.new" --version) || fail "the program does not run on this host, or not in $prefix/bin: nothing was installed"
    install_staged

    echo "$prefix/bin/jitlat is now $new${old:+ (before: $old)}"
    found=$(command -v jitlat || true)
    if [ -z "$found" ]; then
        echo "add it to PATH: export PATH=\"$prefix/bin:\$PATH\""
    elif [ "$found" != "$prefix/bin/jitlat" ]; then
        echo "the shell finds another one first: $found"
    fi
}

# This call is the last line, so that a script that arrived only in part does nothing.
main "$@"

# For the other scripts to read in: how to speak, become root, and use uv.

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$@"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif sudo -n true 2>/dev/null; then sudo -n "$@"
    else return 1
    fi
}

apt_install() {
    as_root apt-get -q update >&2 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@" >&2
}

uv_settings() { # uv does not read pip's settings, and warns when it cannot link from its cache
    index=$(.venv/bin/python -m pip config list | sed -n "s/^[^=]*\.index-url='\(.*\)'$/\1/p" | tail -n 1)
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    # The machine's own certificates, where it has any: a mirror or proxy may be known to it alone.
    [ ! -e /etc/ssl/certs/ca-certificates.crt ] || export UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-true}"
    [ -w "${HOME:-/nonexistent}" ] || export UV_CACHE_DIR="${UV_CACHE_DIR:-$PWD/.venv/uv-cache}"
    cache=$(.venv/bin/uv cache dir)
    mkdir -p "$cache"
    [ "$(stat -c %d "$cache")" = "$(stat -c %d .venv)" ] || export UV_LINK_MODE="${UV_LINK_MODE:-copy}"
}

uv_pip() { command=$1; shift; .venv/bin/uv pip "$command" --quiet --python .venv/bin/python "$@"; }

#!/bin/sh
# Reproduces the figures of document 002 (ATM jitter measurements, DTU Lyngby) from sweeps in this repository:
#
#   examples/seeds/002.sh FIGURE [DIR]     FIGURE is 1 … 5 as in the document
#
# draws into DIR (default: figures), and prints the document's values, the measured values, and the reason for differences.
# JITLAT names the binary (default: jitlat). examples/seeds/README.md has the sources of the sweeps.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
figure=${1:?which figure: 1 … 5}
dir=${2:-figures}
. "$here/lib.sh"

# jitlat opens a sweep for writing, so it gets a copy.
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT
waits() {
    cp "$here/002/$1.sweep" "$copies"
    remade 'sweep-distributions compare-latency-cdf sweep-latency-stddev' "$2" "$3" sweep -v --resume "$copies/$1.sweep" --plots "$dir"
}

host='TCP request and response of 9140 bytes over the loopback interface: no ATM network, so what this host does is alone; its clock is finer'
case $figure in
1) waits normal 'wait 0: nearly all within 500 us of the mean, few up to 20 ms later' "$host. The first row" ;;
2) waits normal 'wait 1 ms: wider than without a wait' "$host. The second row: wider here, too" ;;
3) waits normal 'wait 100 ms: wider than without a wait' "$host. The third row" ;;
4) waits normal 'local loopback, wait 1 ms: some 5000 us less than over the network, and as wide' "$host. The second row" ;;
5) waits first 'all other processes ended, wait 1 ms: slightly narrower, and hardly any late frame' "$host. Others were not ended: both ends run above them (SCHED_FIFO). The second row" ;;
*) echo "no figure $figure: give 1 to 5" >&2; exit 2 ;;
esac

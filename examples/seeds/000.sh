#!/bin/sh
# Reproduces the figures of the examples of document 000 (Jitlat: a jitter and latency measurement tool, DRDC Ottawa TM 2011-047) from logs of
# this repository:
#
#   examples/seeds/000.sh FIGURE [DIR]     FIGURE is 6 … 17 as in the document, or several: 8-15
#
# draws into DIR (default: figures), of several figures each into the folder DIR/FIGURE, and prints the document's values, the measured values, and the reason for differences.
# JITLAT names the binary (default: jitlat). examples/seeds/README.md has the sources of the logs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
figure=${1:?which figure: 6 … 17, or several: 8-15}
dir=${2:-figures}
. "$here/lib.sh"

log() { f=$1 s=$2 w=$3 log=$4; shift 4; remade "$f" "$s" "$w" -v -f "$testdata/$log" --plots "$dir" "$@"; }

example2() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 "$here/000/example2.py" "$work/example2.log"
}
made() { remade "$1" "$2" "$3" -v -f "$work/example2.log" --plots "$dir"; }

loopback='the log of another test, of 2000 packets in place of 10000, on a host with other stalls'
figures10='latencies made for these figures (examples/seeds/000/example2.py): their order is not printed'
tcp1='a simulation of what the text describes: the window of TCP grows on a path of 1.6 s. The same smallest delay and pauses; the course depends on when acknowledgements came'
tcp2='modelled on the text: two times at which the proxy had buffered too little, of 121 ms at most'
sync='no log of synchronised clocks is kept: that of Figure 17, corrected by its own estimate (-C), as the text does by hand'
unsync='another log of the same test: the same offset and minimum RTT, other jitter'

case $figure in
[0-9]*-[0-9]*)
    for one in $(seq "${figure%-*}" "${figure#*-}"); do
        printf '== Figure %s\n' "$one"
        "$0" "$one" "$dir/$one"
        echo
    done ;;
1 | 2 | 3 | 4 | 5) echo "figure $figure is a drawing of the protocol, not of a measurement: docs/protocols" ;;
6) head -n 14 "$testdata/a_loopback_v1.log"
   echo; echo 'in the document: the same eleven lines, then a row for each packet: when received (from 0), sent, number, received, flags' ;;
7) log '' 'min/avg/max 42.00 us / 74.50 us / 2.871 ms, std dev 65.94 us, median 68.40 us, mode 56.15 us; jitter 99% 180.0 us, 100% 2.829 ms' "$loopback" a_loopback_v1.log ;;
8) log latency 'one peak at 56 us with a long tail, cut at the 99th percentile, 222 us' "$loopback" a_loopback_v1.log ;;
9) log burstiness 'no gaps; single peaks to 2.9 ms' "$loopback" a_loopback_v1.log ;;
10) example2; made '' 'min/avg/max 1.615 s / 3.639 s / 6.692 s, std dev 1.260 s, median 3.613 s, mode 1.628 s; jitter 99% 4.897 s, 100% 5.077 s' "$figures10" ;;
11) example2; made latency 'bins of 26.33 ms up to 6.512 s, the 99th percentile' "$figures10" ;;
12) log burstiness 'rising and falling lines with pauses between them, while TCP waits for acknowledgements' "$tcp1" compare/without_proxy.log ;;
13) log '' 'min/avg/max 1.615 s / 1.627 s / 1.737 s, std dev 26.13 ms, median 1.615 s; jitter 99% 102.2 ms, 100% 121.5 ms; r = -0.036' "$tcp2" compare/with_proxy.log ;;
14) log latency 'nearly all at 1.615 s; 500 bins of 204.4 us' "$tcp2" compare/with_proxy.log ;;
15) log burstiness 'flat, with a rise of 121 ms' "$tcp2" compare/with_proxy.log ;;
16) log 'latency jitter' 'min/avg/max 1.614710 s / 1.614832 s / 1.616258 s; relative clock error -80 us, minimum RTT 3.231 s' "$sync" c_unsync_v2.log -C -L ;;
17) log jitter 'min/avg/max 32.955267 s / 32.955396 s / 32.956567 s; relative clock error 31.340420 s, minimum RTT 3.231 s; jitter 99% 269.0 us, 100% 1.300 ms' "$unsync" c_unsync_v2.log ;;
*) echo "no figure $figure: give 6 to 17" >&2; exit 2 ;;
esac

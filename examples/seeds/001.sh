#!/bin/sh
# Reproduces the tables and graphs of document 001 (Comparisons of various ping "Jitter" measures, SLAC 2006) from logs of this repository:
#
#   examples/seeds/001.sh TABLE [DIR]     TABLE is ping or tcpmon, or graphs for the cumulative graphs, routes for the traceroutes
#
# draws into DIR (default: figures), and prints the document's values, the measured values, and the reason for differences.
# JITLAT names the binary (default: jitlat). examples/seeds/README.md has the sources of the logs. To measure such a table on a path of your own:
#   jitlat sweep HOST --proto tcp -l 1460 -n 300 --load tcp --load tcp,streams=2 --load tcp,streams=20 --classes EF,BE,CS1 \
#       --plots figures --html table.html
set -eu
here=$(cd "$(dirname "$0")" && pwd)
table=${1:?which table: ping, tcpmon, graphs or routes}
dir=${2:-figures}
. "$here/lib.sh"

# columns KIND FIGURES SAID WHY: rows are loads, columns classes of traffic
columns() {
    loads=$1
    shift
    logs=
    for load in $loads; do
        for class in ef be scavenger; do logs="$logs $testdata/compare/$load-$class.log"; done
    done
    f=$1 s=$2 w=$3
    remade "$f" "$s" "$w" compare -v $logs --group-by tag:class --rows tag:load --basis ipdv --plots "$dir"
}

model='logs made by a script after the table of a laboratory, not measured: one-way packets every 10 ms on a path of 35 ms, not round trips of 70 ms across a continent'
case $table in
ping) columns 1tcp '' 'EF: mean -0.07 us, std dev 89 us idle, 9 to 32 us under 2 to 10 streams; BE: mean 36 us, std dev 0.28 to 0.94 ms; scavenger: std dev 9 us to 4.5 ms; IQR 0, as the clock of ping was too coarse' \
    "$model; one stream" ;;
tcpmon) columns '1tcp 20tcp' '' '1 TCP: EF std dev 266 us, IQR 93 us; BE 2778 us, 413 us; scavenger 240 us, 84 us. 20 TCP: EF 327 us, 114 us; BE 12816 us, 354 us; scavenger 299 us, 102 us' \
    "$model; as there, EF and scavenger keep their IQR, and BE has the tails (std dev) of its load" ;;
graphs) columns '1tcp 20tcp' '1-compare-ipdv-cdf 2-compare-ipdv-cdf' 'a curve for each class, for each load: BE flatter than EF and scavenger' "$model" ;;
routes) echo 'jitlat path HOST --classes BE,EF,CS1: routers of each class, DSCP where it is rewritten, MPLS labels (as root)'
    echo 'in the document: 12 routers in 70 ms; TOS=0 from hop 7 or 11 on; labels from hop 5'
    echo 'why it differs: that path is not here; docs/guide/path.md has one through namespaces' ;;
*) echo "no table $table: give ping, tcpmon, graphs or routes" >&2; exit 2 ;;
esac

#!/bin/sh
# Reproduces a figure of document 003 (A Flexible, Protocol-agnostic Latency Measurement Platform, VTC2019-Fall):
#
#   examples/seeds/003.sh FIGURE [DIR]     FIGURE is 1 … 6 as in the document
#   examples/seeds/003.sh LAYER            what is below LaMP: raw, ethernet or wsmp, between two network namespaces (as root)
#
# draws into DIR (default: figures), and prints what the document shows and the reason for differences. Figures 2, 3 and 5 are of simulated links
# (003/simulate.py, Python 3.10); 4 and 6 are measured now, towards HOST, a host with `jitlat serve`, or if none is given towards this one.
# JITLAT names the binary (default: jitlat); PACKETS and REPETITIONS make 4 and 6 shorter than in the document.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
figure=${1:?which figure: 1 … 6, or raw, ethernet, wsmp}
dir=${2:-figures}
jitlat=${JITLAT:-jitlat}
packets=${PACKETS:-600}
work=$(mktemp -d)
server=
near=lamp-$$-near far=lamp-$$-far
clean() {
    if [ -n "$server" ]; then kill "$server" && wait "$server" || true; fi
    for name in $near $far; do ip netns delete $name 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean EXIT

# run SAID WHY ARGUMENT…: runs jitlat, and prints all
run() {
    said=$1 why=$2
    shift 2
    printf 'jitlat'
    printf ' %s' "$@" | sed "s|$work/||g"
    printf '\n\n'
    "$jitlat" "$@"
    printf '\nin the document: %s\nwhy it differs: %s\n' "$said" "$why"
}

# along SAID WHY KEY GROUP CONFIDENCE: means of simulated tests against a number
along() {
    python3 "$here/003/simulate.py" "$figure" "$work"
    run "$1" "$2" compare "$work"/*.log --along "$3" --group-by "$4" --confidence "$5" -v --plots "$dir"
    echo "drawn: $dir/along-latency-mean.svg"
}

# sweep SAID WHY ARGUMENT…: measured now
sweep() {
    said=$1 why=$2
    shift 2
    if [ -z "${HOST:-}" ]; then
        # A separate address, so that several may run.
        HOST=127.3.$(($$ / 250 % 250)).$(($$ % 250 + 1))
        "$jitlat" serve --bind $HOST >"$work/serve" 2>&1 &
        server=$!
        for _ in 1 2 3 4 5 6 7 8 9 10; do grep -qs 'answering TCP' "$work/serve" && break; sleep 0.3; done
        why="$why; towards this host itself there is no link"
    fi
    run "$said" "$why" sweep "$HOST" -v -o "$work/sweep" --plots "$dir" -n "$packets" "$@"
    echo "drawn: $dir/sweep-latency-mean.svg"
}

# layer SERVER CLIENT: LaMP without the host's own IP and UDP, over a cable between two network namespaces
layer() {
    ip netns add $near
    ip netns add $far
    ip -n $near link add path type veth peer name path netns $far
    ip -n $near address add 10.9.0.1/24 dev path
    ip -n $far address add 10.9.0.2/24 dev path
    for name in $near $far; do ip -n $name link set path up; done
    ip netns exec $far "$jitlat" serve --bind 10.9.0.2 --only lamp $1 >"$work/serve" 2>&1 &
    server=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do grep -qs 'LaMP' "$work/serve" && break; sleep 0.3; done
    ip netns exec $near "$jitlat" ping 10.9.0.2 --proto lamp $2 -n 50 -p 5ms -v -o "$work/log"
}

printed='curves; no values are printed'
simulated='simulated links with the nominal rates, not the hardware of the authors'

case $figure in
1) echo "figure 1 is the header of LaMP: docs/protocols/lamp.md" ;;
2) along "$printed: grows with the payload, most over the hub; Wi-Fi above all" "$simulated" tag:payload tag:link 95 ;;
3) along "$printed: linear in the payload; 802.11a at 6 Mbit/s, through an access point, close to 802.11p at 3 Mbit/s" "$simulated" \
    tag:payload tag:link 95 ;;
4) sweep "bars of some ms; higher for lower categories and under a load of a higher one; 95 % intervals over 15 tests" \
    'a wired path has no access categories: bars differ where a queueing discipline uses the priority' \
    --proto lamp --acs BK,BE,VI,VO -l 1448 -p 100ms --repetitions "${REPETITIONS:-15}" \
    --load udp:7.2Mbit,payload=1470,ac=BK --load udp:7.2Mbit,payload=1470,ac=BE --load udp:7.2Mbit,payload=1470,ac=VI \
    --load udp:7.2Mbit,payload=1470,ac=VO --load-settle "${SETTLE:-1s}" ;;
5) along "$printed: grows with the distance up to 190 m, with the retransmissions; 90 % intervals over 10 tests" \
    "$simulated; how the share of retransmissions grows with the distance is made up" tag:distance tag:rate 90
    echo "drawn: $dir/along-interface-retries.svg, the Tx Retries curves" ;;
6) sweep "$printed: ping below LaTe; with kernel stamps (KRT) less than user to user; TWAMP as LaTe with KRT; 95 % over 20 tests" \
    'a wired path, faster than 802.11p at 3 Mbit/s' \
    --proto icmp,lamp:user,lamp:krt,twamp -l 1000 -p 100ms --repetitions "${REPETITIONS:-20}" ;;
raw) layer '--lamp-raw path' --raw ;;
ethernet) layer '--lamp-ethernet path' --ethernet ;;
wsmp) layer '--lamp-wsmp path,0x1d' '--lamp-wsmp 0x1d' ;;
*) echo "no figure or layer $figure: give 1 to 6, raw, ethernet or wsmp" >&2; exit 2 ;;
esac

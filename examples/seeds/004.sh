#!/bin/sh
# Reproduces a table or a figure of document 004 (Using Synthetic Packet Pairs to Investigate Real-time Latency Variations over Home
# Broadband Connections, CAIA 080530B) from captures of this repository:
#
#   examples/seeds/004.sh FIGURE [DIR]     FIGURE is 1 … 28 as in the document, I or II for its tables
#
# draws into DIR (default: figures), and prints the document's values, the measured values, and the reason for differences.
# JITLAT names the binary (default: jitlat). examples/seeds/README.md has the sources of the captures.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
figure=${1:?which figure: 5 … 28, I or II}
dir=${2:-figures}
. "$here/lib.sh"
spp=$testdata/spp
data=$here/004
link=pppoe-llc,up=128k,down=512k
tunnel=$link,tunnel=28

# point NAME…: the captures of the payloads or experiments named, at one point
sweep() { for payload in 40 340 640 1240; do printf '%s ' "$spp/atm_udp$payload.$1.pcap"; done; }

# draw FIGURES SAID WHY ARGUMENT…: runs jitlat, and prints all
draw() {
    f=$1 s=$2 w=$3
    shift 3
    remade "$f" "$s" "$w" spp --summary --verbose --plots "$dir" "$@"
}

of_sweep() { f=$1 s=$2 w=$3; shift 3; draw "$f" "$s" "$w" -f $(sweep ref) -F $(sweep mon) "$@"; }
of_payload() { f=$1 s=$2 w=$3; shift 3; draw "$f" "$s" "$w" -f "$spp/atm_udp40.ref.pcap" -F "$spp/atm_udp40.mon.pcap" "$@"; }
of_upload() { f=$1 s=$2 w=$3; shift 3; draw "$f" "$s" "$w" -f "$spp/atm_tcp_up.ref.pcap" -F "$spp/atm_tcp_up.mon.pcap" --link "$link" "$@"; }
of_download() { f=$1 s=$2 w=$3; shift 3; draw "$f" "$s" "$w" -f "$data/download.ref.pcap.gz" -F "$data/download.mon.pcap.gz" --link "$tunnel" "$@"; }
of_x11() { f=$1 s=$2 w=$3; shift 3; draw "$f" "$s" "$w" -f "$data/x11.ref.pcap.gz" -F "$data/x11.mon.pcap.gz" --link "$tunnel" $songs "$@"; }
of_session() { f=$1 s=$2 w=$3; shift 3; draw "$f" "$s" "$w" -f "$data/priority.ref.pcap.gz" -F "$data/priority.mon.pcap.gz" "$@"; }

path='the path beyond the line is not theirs: 2.5 ms each way here, about 4 ms with OpenVPN there; beyond that, the same'
queue='the queue here holds 30 packets, as theirs seems to; less data, so less of the sawtooth'
simulated='a simulated line and hosts (examples/seeds/004/simulate.py): the queue is shorter, others use the upstream more, and nothing disturbs the bands'
session='keys typed to a remote shell through the kernel HTB, which lets a packet through at once after a pause: 20 ms of serialisation are missing'
x11='no capture of a music player over X11: simulated (examples/seeds/004/simulate.py x11), with songs skipped around 40, 160 and 250 s'
songs="--mark 30s-50s=skips --mark 152s-168s=skips --mark 240s-260s=skips"
cross='15s-40s=cross traffic'

case $figure in
1 | 2 | 3 | 4) echo "figure $figure is a drawing of the arrangement, not of a measurement: docs/guide/passive.md" ;;
I) "$jitlat" spp --link "$tunnel" --payloads 40,340,640,940,1240
   echo; echo 'in the document: cells 3 10 16 22 28; RTT 12.42 41.41 66.25 91.10 115.94'
   echo 'why it differs: 91.10 is the sum of two rounded delays; exactly it is 91.09' ;;
II | 7) of_sweep rtt-by-size 'model 12.42 41.41 66.25 115.94, min 17.84 46.99 72.52 123.19, median 20.34 49.52 74.72 125.37, difference 7.92 8.11 8.47 9.43' "$path; 940 bytes were not captured" --link "$tunnel" ;;
5) of_sweep rtt-cdf-by-size 'medians 20.34 49.52 74.72 125.37 ms, SPP and ping alike' "$path; no ping here" ;;
6) of_payload rtt '40 bytes: 17.84 ms to some 23 ms' "$path" ;;
8) draw captures-rtt-by-size 'steps of 48 bytes; LLC: one level from 97 to 144 bytes of payload; VC multiplexing has its steps 8 bytes later' \
    'the kernel HTB has no propagation delay and no cell clock: the steps are where the document has them, lower by what its path adds' \
    -f "$data/stairs_llc.ref.pcap.gz" "$data/stairs_vc.ref.pcap.gz" \
    -F "$data/stairs_llc.mon.pcap.gz" "$data/stairs_vc.mon.pcap.gz" --label LLC,VC --link fit,tunnel=28 ;;
9) of_upload rtt 'a sawtooth of approximately 20 to 30 queued packets, 2 to 3 s' "$queue" ;;
10) of_upload packet-sizes '1450 bytes up, 52 down' 'the same' ;;
11) of_upload rtt 'a closer look: single estimates step down as the queue drains' "$queue" --from 20s --to 45s ;;
12) of_upload rtt-histogram 'peaks 106 ms apart, around 2610 ms' "$queue" ;;
13) of_upload rtt-cdf 'SPP and ping alike but for the steps' 'no ping in this capture' ;;
14) of_download packet-sizes '1450 bytes down, 52 up' 'the same' ;;
15) of_download rtt 'bands at 79, 105 and 132 ms' "$simulated" --rtt-max 140ms ;;
16) of_download rtt 'bands of 3.3 ms within' "$simulated" --from 20s --to 60s --rtt-min 70ms --rtt-max 140ms ;;
17) of_download rtt-histogram 'most at 105.8 ms; 26.5 and 3.3 ms apart' "$simulated" ;;
18) of_download rtt '15 us apart' "$simulated; there the interface was suspected, here it is what the simulation has" --rtt-min 105.8ms --rtt-max 106ms ;;
19) of_download rtt-cdf 'most at 105.8 ms; ping spread wider' "$simulated; no ping" ;;
20 | 21) of_session 'rtt rtt-ping' 'an idle session from 80 to 120 s; SPP shows more than ping' "$session" --to 14s ;;
22) of_session rtt-cdf 'ping reports less delay than the session has' "$session" --to 14s ;;
23) of_x11 rtt-ping 'ping from around 25 to over 800 ms, without a trend' "$x11" ;;
24) of_x11 rtt '25 to over 800 ms; low around 40, 160 and 250 s, when songs were skipped' "$x11" ;;
25) of_x11 rtt-cdf 'many packets have less delay than ping suggests' "$x11" ;;
26) of_x11 pair-rate 'pair rate above average around 40, 160 and 250 s' "$x11" ;;
27) of_session rtt 'the session at 25 ms, smeared upwards while cross traffic is present' "$session" --rtt-max 100ms --mark "$cross" --mark '55s-75s=cross traffic' ;;
28) of_session rtt-ping 'ping at 8 s while cross traffic is present' "$session; ping, without priority, waits as long as theirs" --mark "$cross" --mark '55s-75s=cross traffic' ;;
*) echo "no figure $figure: give 1 to 28, I or II" >&2; exit 2 ;;
esac

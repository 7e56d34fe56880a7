#!/usr/bin/env bash
# A 512/128 kbit/s ADSL line in three network namespaces, and the experiments of the passive instrument on it:
#
#   sudo docs/guide/adsl/lab.sh DIR [EXPERIMENT…]    sweep stairs upload download priority (all of them)
#
# leaves in DIR, for each, the two captures, jitlat's summary, its JSON and its figures. Needs root, iproute2, tcpdump
# and python3; touches nothing outside its namespaces. JITLAT names the binary (default: jitlat).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
jitlat=${JITLAT:-jitlat}
dir=${1:?where to put the results}
shift
experiments=${*:-sweep stairs upload download priority}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

home=10.91.1.2 far=10.91.2.2
up=128000 down=512000
# Between an IP packet and the cells: PPPoE 8, MAC 14, LLC/SNAP 10, AAL5 8. The kernel counts the MAC header itself.
overhead=$((8 + 10 + 8))
link=pppoe-llc,up=128k,down=512k
# The report of 2008 measured through a tunnel of 28 bytes; so do the experiments that are compared with its tables.
tunnel=28

started=()
in_ns() { ip netns exec "$@"; }
background() { "$@" & started+=($!); }
finish() {
    for p in "${started[@]}"; do kill "$p" 2>/dev/null || true; done
    for n in home line far; do ip netns del "jladsl-$n" 2>/dev/null || true; done
}
trap finish EXIT

build() {
    for n in home line far; do
        ip netns add "jladsl-$n"
        in_ns "jladsl-$n" ip link set lo up
    done
    ip link add e0 netns jladsl-home type veth peer name h0 netns jladsl-line
    ip link add e0 netns jladsl-far type veth peer name f0 netns jladsl-line
    local pair
    for pair in "home e0 $home" "far e0 $far" "line h0 10.91.1.1" "line f0 10.91.2.1"; do
        set -- $pair
        in_ns "jladsl-$1" ip addr add "$3/24" dev "$2"
        in_ns "jladsl-$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=1"
        in_ns "jladsl-$1" ip link set "$2" up
        # Captured packets must be those on the wire: one segment per packet.
        in_ns "jladsl-$1" ip link set "$2" gso_max_segs 1
    done
    in_ns jladsl-home ip route add default via 10.91.1.1
    in_ns jladsl-far ip route add default via 10.91.2.1
    in_ns jladsl-line sysctl -qw net.ipv4.ip_forward=1
    # Address resolution inside a measurement would look like delay.
    local ends
    for ends in "home e0 10.91.1.1 line h0" "far e0 10.91.2.1 line f0" "line h0 $home home e0" "line f0 $far far e0"; do
        set -- $ends
        in_ns "jladsl-$1" ip neigh replace "$3" dev "$2" nud permanent \
            lladdr "$(in_ns "jladsl-$4" cat "/sys/class/net/$5/address")"
    done
}

# shape QUEUE_UP QUEUE_DOWN: both rates, every packet charged with its cells
shape() {
    local dev rate queue
    for dev in "f0 $up $1" "h0 $down $2"; do
        set -- $dev
        in_ns jladsl-line tc qdisc del dev "$1" root 2>/dev/null || true
        in_ns jladsl-line tc qdisc add dev "$1" root handle 1: \
            stab mtu 2047 tsize 512 linklayer atm overhead $overhead htb default 10
        in_ns jladsl-line tc class add dev "$1" parent 1: classid 1:10 htb rate "${2}bit" burst 1b cburst 1b quantum 1800
        in_ns jladsl-line tc qdisc add dev "$1" parent 1:10 pfifo limit "$3"
    done
}

# prioritise QUEUE: the upstream link sends the shell's packets first, like a home router with a reserved class
prioritise() {
    in_ns jladsl-line tc qdisc del dev f0 root
    in_ns jladsl-line tc qdisc add dev f0 root handle 1: \
        stab mtu 2047 tsize 512 linklayer atm overhead $overhead htb default 20
    in_ns jladsl-line tc class add dev f0 parent 1: classid 1:1 htb rate ${up}bit burst 1b cburst 1b
    in_ns jladsl-line tc class add dev f0 parent 1:1 classid 1:10 htb rate 96kbit ceil ${up}bit burst 1b cburst 1b prio 0 quantum 1800
    in_ns jladsl-line tc class add dev f0 parent 1:1 classid 1:20 htb rate 32kbit ceil ${up}bit burst 1b cburst 1b prio 1 quantum 1800
    in_ns jladsl-line tc qdisc add dev f0 parent 1:10 pfifo limit 30
    in_ns jladsl-line tc qdisc add dev f0 parent 1:20 pfifo limit "$1"
    in_ns jladsl-line tc filter add dev f0 parent 1: protocol ip u32 match ip protocol 6 0xff match ip dport 5022 0xffff flowid 1:10
}

# capture NAME FILTER: at both hosts, until captured
capture() {
    local name=$1
    shift
    in_ns jladsl-home tcpdump -q -i e0 -s 128 -U -w "$dir/$name.ref.pcap" "$@" 2>/dev/null &
    tcpdumps=($!)
    in_ns jladsl-far tcpdump -q -i e0 -s 128 -U -w "$dir/$name.mon.pcap" "$@" 2>/dev/null &
    tcpdumps+=($!)
    started+=("${tcpdumps[@]}")
    sleep 1
}

captured() {
    sleep 1
    kill "${tcpdumps[@]}"
    wait "${tcpdumps[@]}" 2>/dev/null || true
}

# tell NAME ARGUMENT…: result of the passive instrument
tell() {
    local name=$1
    shift
    "$jitlat" spp -f "$dir/$name.ref.pcap" -F "$dir/$name.mon.pcap" --summary \
        --json "$dir/$name.json" --plots "$dir/$name" --html "$dir/$name.html" "$@" | tee "$dir/$name.txt"
}

traffic() { local where=$1; shift; in_ns "jladsl-$where" python3 "$here/traffic.py" "$@"; }

# probe NAME SIZES ROUNDS GAP_MS: both directions at the same time
probe() {
    local seconds
    seconds=$(python3 -c "print(len('$2'.split(',')) * $3 * $4 / 1000 + 12)")
    background traffic home drain "$seconds"
    local drains=($!)
    background traffic far drain "$seconds"
    drains+=($!)
    capture "$1" udp port 5001
    traffic home probes $far "$2" "$3" "$4" &
    local out=$!
    traffic far probes $home "$2" "$3" "$4" &
    wait $out $!
    captured
    pkill -P "${drains[0]}" 2>/dev/null || true
    pkill -P "${drains[1]}" 2>/dev/null || true
    kill "${drains[@]}" 2>/dev/null || true
}

sweep() {
    local overhead=$((overhead + tunnel))
    shape 100 100
    probe sweep 40,340,640,940,1240 40 320
    tell sweep --link "$link,tunnel=$tunnel"
}

stairs() {
    local overhead=$((overhead + tunnel))
    shape 100 100
    probe stairs "$(seq -s, 40 4 240)" 8 130
    tell stairs --link fit,tunnel=$tunnel
}

upload() {
    shape 30 100
    background traffic far sink 5201 90
    capture upload tcp port 5201
    traffic home send $far 5201 60
    captured
    tell upload --link "$link"
    "$jitlat" tcp "$dir/upload.ref.pcap" "$dir/upload.mon.pcap" --plots "$dir/upload-tcp" | tee "$dir/upload-tcp.txt"
}

download() {
    shape 100 6
    background traffic home sink 5201 60
    capture download tcp port 5201
    traffic far send $home 5201 40
    captured
    tell download --link "$link"
}

priority() {
    shape 100 100
    prioritise 75
    background traffic far shell 5022 110
    background traffic far sink 5201 110
    capture priority "tcp port 5022 or icmp"
    background traffic home type $far 5022 90
    in_ns jladsl-home "$jitlat" ping $far -p 1s -n 90 -l 56 --timeout 10s >"$dir/priority-ping.txt" &
    local ping=$!
    sleep 15
    traffic home send $far 5201 25
    sleep 15
    traffic home send $far 5201 20
    wait $ping || true
    captured
    tell priority
}

build
for e in $experiments; do
    echo "== $e"
    "$e"
done

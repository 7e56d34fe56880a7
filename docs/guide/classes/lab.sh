#!/usr/bin/env bash
# A bottleneck of 20 Mbit/s with three traffic classes between two hosts, in network namespaces:
#
#   sudo docs/guide/classes/lab.sh DIR [EXPERIMENT…]    instruments classes (both)
#
# leaves in DIR a sweep over instruments, the logs of every class under every load, their comparison and the figures.
# Needs root and iproute2; touches nothing outside its namespaces. JITLAT names the binary (default: jitlat).
set -euo pipefail
jitlat=${JITLAT:-jitlat}
dir=${1:?where to put the results}
shift
experiments=${*:-instruments classes}
mkdir -p "$dir"
cd "$dir"

here=10.92.1.2 far=10.92.2.2
rate=20mbit

started=()
near() { ip netns exec jlqos-near "$@"; }
in_ns() { ip netns exec "jlqos-$1" "${@:2}"; }
background() { "$@" & started+=($!); }
stop_load() {
    # The second signal ends it immediately: the results of the load are not needed.
    for p in "${started[@]}"; do kill "$p" 2>/dev/null || true; done
    [ ${#started[@]} = 0 ] || sleep 1
    for p in "${started[@]}"; do kill "$p" 2>/dev/null || true; done
    for p in "${started[@]}"; do wait "$p" 2>/dev/null || true; done
    started=()
    # Data in the load's sockets continues to load the path.
    local k
    for k in $(seq 60); do
        near ss -Htan | awk '$3 > 0 { found = 1 } END { exit !found }' || break
        sleep 1
    done
}
finish() {
    stop_load
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    for n in near line far; do ip netns del "jlqos-$n" 2>/dev/null || true; done
}
trap finish EXIT

# shape DEVICE: EF before best effort before scavenger (CS1), each with a queue of 100 packets
shape() {
    local dev=$1 k
    in_ns line tc qdisc add dev "$dev" root handle 1: htb default 20 r2q 100
    in_ns line tc class add dev "$dev" parent 1: classid 1:1 htb rate $rate burst 3k cburst 3k
    in_ns line tc class add dev "$dev" parent 1:1 classid 1:10 htb rate 2mbit ceil $rate burst 3k cburst 3k prio 0
    in_ns line tc class add dev "$dev" parent 1:1 classid 1:20 htb rate 14mbit ceil $rate burst 3k cburst 3k prio 1
    in_ns line tc class add dev "$dev" parent 1:1 classid 1:30 htb rate 4mbit ceil $rate burst 3k cburst 3k prio 2
    for k in 10 20 30; do in_ns line tc qdisc add dev "$dev" parent 1:$k pfifo limit 100; done
    in_ns line tc filter add dev "$dev" parent 1: protocol ip u32 match ip tos 0xb8 0xfc flowid 1:10
    in_ns line tc filter add dev "$dev" parent 1: protocol ip u32 match ip tos 0x20 0xfc flowid 1:30
}

build() {
    for n in near line far; do
        ip netns add "jlqos-$n"
        in_ns $n ip link set lo up
    done
    ip link add e0 netns jlqos-near type veth peer name n0 netns jlqos-line
    ip link add e0 netns jlqos-far type veth peer name f0 netns jlqos-line
    local end
    for end in "near e0 $here" "far e0 $far" "line n0 10.92.1.1" "line f0 10.92.2.1"; do
        set -- $end
        in_ns "$1" ip addr add "$3/24" dev "$2"
        in_ns "$1" ip link set "$2" up
        in_ns "$1" ip link set "$2" gso_max_segs 1
    done
    in_ns near ip route add default via 10.92.1.1
    in_ns far ip route add default via 10.92.2.1
    in_ns line sysctl -qw net.ipv4.ip_forward=1
    shape n0
    shape f0
    in_ns far "$jitlat" serve --bind $far --max-sessions 100 --max-sessions-per-client 100 --max-connections 200 \
        --max-connections-per-client 200 > serve.txt 2>&1 &
    server=$!
    until grep -qs listening serve.txt; do sleep 0.1; done
}

# load DSCP STREAMS RATE EXTRA…: test streams that run during one row of the table
load() {
    local dscp=$1 streams=$2 each=$3 k
    shift 3
    for k in $(seq "$streams"); do
        background near "$jitlat" $far -r "$each" -l 1400 --duration 14s -D "$dscp" -d $((3000 + k)) \
            -o "$scratch/load.$dscp.$k.$RANDOM" "$@" > /dev/null 2>&1
    done
    sleep 4
}

# row NAME: the three classes at the same time
row() {
    local class tests=()
    for class in EF BE SS; do
        local dscp=$class
        [ "$class" != SS ] || dscp=CS1
        near "$jitlat" ping $far --proto tcp -l 1460 -n 300 -p 20ms -D "$dscp" --tag class="$class" --tag load="$1" \
            -o "$2-$class.log" > /dev/null &
        tests+=($!)
    done
    wait "${tests[@]}"
    stop_load
}

instruments() {
    near "$jitlat" sweep $far --proto icmp,lamp:user,lamp:krt,twamp -l 64,1400 -n 200 -p 5ms --repetitions 20 --pause 50ms \
        --seed 3 -o instruments.sweep --plots figures | tee instruments.txt
}

classes() {
    scratch=$(mktemp -d)
    row none none
    load CS1 1 5mbit
    row "5M UDP in SS" cbr
    load CS1 1 40mbit -t
    row "1 TCP in SS" tcp1
    load CS1 20 2mbit -t
    row "20 TCP in SS" tcp20
    load BE 20 2mbit -t
    row "20 TCP in BE" tcp20be
    rm -rf "$scratch"
    "$jitlat" compare none-*.log cbr-*.log tcp1-*.log tcp20-*.log tcp20be-*.log --group-by tag:class --rows tag:load \
        --basis delay --baseline BE --plots figures | tee classes.txt
}

build
for e in $experiments; do $e; done

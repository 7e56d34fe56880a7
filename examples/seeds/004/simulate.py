#!/usr/bin/env python3
"""Traffic over a simulated ADSL line, as captures at both hosts: simulate.py download|x11 DIR

The line sends ATM cells in slots of a clock that never stops, 128 kbit/s up and 512 kbit/s down, PPPoE over LLC, in a tunnel of
28 bytes; 2.5 ms of propagation in each direction. Both hosts see and send packets at multiples of 15 us, as an interface does that collects its
interrupts. Writes DIR/KIND.ref.pcap.gz and DIR/KIND.mon.pcap.gz, with stamps in nanoseconds. The numbers are the same in every
run.

download: every data packet (1450 bytes) is acknowledged on arrival (52 bytes); the window changes between one and four packets;
others use the upstream now and then.
x11: a music player behind the upstream, shown elsewhere (X11 over SSH). Its visualisation changes every 0.6 s or so, in two
to seven packets of 1450 bytes, each acknowledged (52 bytes). Around 40, 160 and 250 s a song is skipped: small packets, 40 a
second, and no visualisation. A ping each second uses the same line."""
import gzip, heapq, math, random, struct, sys

TICK = 15_000
START = 1_700_000_000 * 10**9
HOME, FAR = bytes([10, 77, 1, 2]), bytes([10, 77, 2, 2])
OVERHEAD = 28 + 8 + 14 + 10 + 8  # tunnel, PPPoE, MAC, LLC/SNAP, AAL5


class Line:
    """One direction: time at which the last cell of a packet ends."""

    def __init__(self, rate, rng):
        self.slot = 424e9 / rate
        self.phase = rng.random() * self.slot
        self.free = -(10**18)

    def send(self, at, length):
        first = max(self.free, math.ceil((at - self.phase) / self.slot - 1e-9))
        self.free = first + -(-(length + OVERHEAD) // 48)
        return int(self.phase + self.free * self.slot) + 2_500_000


def tick(at):
    return -(-at // TICK) * TICK


def packet(source, destination, ident, seq, length):
    """Headers of a TCP segment with this many bytes as an IP packet, with the timestamp option."""
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, ident & 0xFFFF, 0x4000, 64, 6, 0) + source + destination
    ports = (5201, 40000) if source == FAR else (40000, 5201)
    return ip + struct.pack("!HHIIBBHHH", *ports, seq & 0xFFFFFFFF, 1, 8 << 4, 16, 501, 0, 0) + bytes([1, 1, 8, 10]) + bytes(8)


def simulate(packets):
    rng = random.Random(4)
    up, down = Line(128_000, rng), Line(512_000, rng)
    queue, seen = [(0, 0, "send"), (1000, 1, "send")], ([], [])
    window, in_flight, sent, order = 2, 2, 0, 2
    while sent < packets:
        at, _, what = heapq.heappop(queue)
        if what == "send":
            sent += 1
            leaves = tick(at)
            arrives = tick(down.send(leaves, 1450))
            data = packet(FAR, HOME, sent, sent * 1398, 1450)
            seen[1].append((leaves, data, 1450))
            seen[0].append((arrives, data, 1450))
            event = (arrives, "acknowledge")
        elif what == "acknowledge":
            if rng.random() < 0.25:
                for _ in range(rng.choice([3, 4])):
                    up.send(at, rng.choice([76, 130]))
            arrives = tick(up.send(at, 52))
            ack = packet(HOME, FAR, order, order, 52)
            seen[0].append((at, ack, 52))
            seen[1].append((arrives, ack, 52))
            event = (arrives, "acknowledged")
        else:
            in_flight -= 1
            if sent % 12 == 0:
                window = rng.choice([1, 2, 3, 4])
            while in_flight < window:
                in_flight += 1
                order += 1
                heapq.heappush(queue, (at + int(rng.random() * 100_000), order, "send"))
            continue
        order += 1
        heapq.heappush(queue, (event[0], order, event[1]))
    return seen


def echo(kind, seq):
    """An ICMP echo request (8) or reply (0) with 56 bytes of data."""
    source, destination = (HOME, FAR) if kind == 8 else (FAR, HOME)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 84, seq + (0 if kind == 8 else 30000), 0, 64, 1, 0) + source + destination
    return ip + struct.pack("!BBHHH", kind, 0, 0, 77, seq) + bytes(56)


def x11(seconds):
    rng = random.Random(7)
    up, down = Line(128_000, rng), Line(512_000, rng)
    seen, sends = ([], []), []
    skips = [(30, 50), (152, 168), (240, 260)]
    at = 0.5
    while at < seconds:
        if any(a <= at < b for a, b in skips):
            sends.append((at, "event", rng.choice([76, 92, 124, 188])))
            at += rng.expovariate(40)
        else:
            sends += [(at, "event", 1450)] * rng.choice([2, 3, 4, 5, 6, 7])
            at += rng.uniform(0.45, 0.75)
    sends += [(1 + k, "ping", k) for k in range(int(seconds) - 2)]
    for number, (at, what, size) in enumerate(sorted(sends)):
        leaves = tick(int(at * 1e9))
        data = echo(8, size) if what == "ping" else packet(HOME, FAR, number, number * 1398, size)
        length = 84 if what == "ping" else size
        arrives = tick(up.send(leaves, length))
        answer = echo(0, size) if what == "ping" else packet(FAR, HOME, number, number, 52)
        back = tick(down.send(arrives + TICK, 84 if what == "ping" else 52))
        for host, first, second in ((0, leaves, back), (1, arrives, arrives + TICK)):
            seen[host].append((first, data, length))
            seen[host].append((second, answer, 84 if what == "ping" else 52))
    return seen


KINDS = {"download": lambda: simulate(4000), "x11": lambda: x11(300)}


def main(kind, folder):
    for name, packets in zip(("ref", "mon"), KINDS[kind]()):
        with open(f"{folder}/{kind}.{name}.pcap.gz", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as out:
            out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101))
            for at, data, length in sorted(packets, key=lambda p: p[0]):
                at += START
                out.write(struct.pack("<IIII", at // 10**9, at % 10**9, len(data), length) + data)


main(*sys.argv[1:])

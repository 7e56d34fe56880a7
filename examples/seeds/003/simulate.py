#!/usr/bin/env python3
"""Logs of LaMP tests over the links of document 003, simulated, because a repository cannot contain two laptops and a radio link.

    simulate.py FIGURE DIR        FIGURE is 2, 3 or 5

The time of a packet is its serialisation on each transmission of its path, the overhead of each transmission (preamble, back-off,
acknowledgement), both hosts their stacks, and an exponential time of the hosts' scheduling. Retransmissions repeat a transmission.
"""

import math
import pathlib
import random
import sys

HEADERS = 24 + 8 + 20 + 14  # LaMP, UDP, IPv4, Ethernet
PACKETS = 30
PERIOD = 100_000_000
BEGAN = 1_560_000_000_000_000_000

# name: Mbit/s, transmissions in each direction, overhead of a transmission in us, stacks of both hosts in us
LAPTOPS = {
    "direct Ethernet": (100, 1, 2, 250),
    "10BASE hub": (10, 1, 20, 250),
    "100 Mbit/s switch": (100, 2, 5, 250),
    "802.11a": (24, 2, 160, 400),
}
BOARDS = {
    "802.11p 3 Mbit/s": (3, 1, 250, 500),
    "802.11p 6 Mbit/s": (6, 1, 250, 500),
    "802.11p 12 Mbit/s": (12, 1, 250, 500),
    "802.11a 6 Mbit/s": (6, 2, 160, 500),
}


def round_trip(link, payload, lot, fails=0.0, radio=None):
    """ns; `fails` is the share of transmissions that have to be repeated. Counts in `radio` how often the client repeats."""
    rate, transmissions, overhead, stacks = link
    once = (payload + HEADERS) * 8 * 1000 / rate + overhead * 1000
    tries = 0
    for k in range(2 * transmissions):
        tries += 1
        while lot.random() < fails:
            tries += 1
            if radio and k < transmissions:
                radio["retries"] += 1
    return int(tries * once + stacks * 1000 + lot.expovariate(1 / 30_000))


def log(path, tags, payload, rtt, radio=None):
    """Writes a log of round trips `rtt()`, with a sample of the client's `radio` per second."""
    size = payload + 24
    lines = [
        "# Sat Jun  8 13:20:00 UTC 2019", "# command SENDING", f"# npkts {PACKETS}", f"# pktlen {size}", "# proto 17",
        f"# period {PERIOD}", "# src_ip 10.3.0.1", "# dst_ip 10.3.0.2", "# src_port 37901", "# dst_port 46000", "# dscp 0",
        "# format 3", "# direction up", "# schedule periodic", f"# created {BEGAN}",
    ]
    lines += [f"# tag {key}={value}" for key, value in tags.items()]
    lines += ["# two_way lamp", f"# sent {PACKETS}",
              "# columns rx_index tx_ns seq rx_ns flags stamps send_lag receive_lag ttl tos size answered_ns returned_ns"]
    samples = []
    for k in range(PACKETS):
        sent = BEGAN + k * PERIOD
        if radio and sent % 1_000_000_000 == 0:
            samples.append(f"# client.sample {sent} signal={radio['signal']} frequency=5900 retries={radio['retries']}")
        lines.append(f"{k} {sent} {k} - 0 u--u - 0 255 0 {size} - {sent + rtt()}")
    lines += [f"# rows {PACKETS}"]
    if radio:
        end = BEGAN + PACKETS * PERIOD
        samples.append(f"# client.sample {end} signal={radio['signal']} frequency=5900 retries={radio['retries']}")
        lines += ["# client.interface wlan0", *samples]
    lines += ["# ending complete"]
    path.write_text("\n".join(lines) + "\n")


def by_payload(links, folder):
    for number, (name, link) in enumerate(links.items()):
        for payload in (0, 200, 400, 600, 800, 1000, 1200, 1448):
            lot = random.Random(f"{name} {payload}")
            tags = {"link": name, "payload": f"{payload} bytes"}
            log(folder / f"{number}-{payload}.log", tags, payload, lambda: round_trip(link, payload, lot))


def by_distance(folder):
    for rate in (3, 6, 12):
        link = BOARDS[f"802.11p {rate} Mbit/s"]
        for distance in (0, 50, 100, 150, 190):
            # An assumption: fast modulations suffer first.
            fails = 0.3 * (distance / 190) ** 2 * (rate / 12) ** 0.5
            for test in range(10):
                lot = random.Random(f"{rate} {distance} {test}")
                tags = {"rate": f"{rate} Mbit/s", "distance": f"{distance} m"}
                path = folder / f"{rate}-{distance}-{test}.log"
                # 18 dBm in free space at 5.9 GHz.
                radio = {"retries": 0, "signal": round(18 - 47.9 - 20 * math.log10(max(distance, 1)))}
                log(path, tags, 1448, lambda: round_trip(link, 1448, lot, fails, radio), radio)


folder = pathlib.Path(sys.argv[2])
match sys.argv[1]:
    case "2":
        by_payload(LAPTOPS, folder)
    case "3":
        by_payload(BOARDS, folder)
    case "5":
        by_distance(folder)

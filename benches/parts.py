"""Captures of hours in parts: checks that the joined parts equal the whole, and prints the memory of each.

    python3 benches/parts.py target/release/jitlat [MINUTES [PARTS [PACKETS_A_SECOND [FOLDER]]]]

Makes two captures of the same traffic (16 flows over UDP, each packet answered; clocks 3.25 s and 20 ppm apart, one in 1000 lost per direction), a frame
at a time. Reads them whole, and in parts of equal length with the plan of a first pass; joins these, and compares every line. Ends with
status 1 where they differ.
"""
import hashlib
import heapq
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

START = 1_700_000_000_000_000_000
AHEAD, SKEW_PPM = 3_250_000_000, 20
OUT, BACK, JITTER = 10_000_000, 11_000_000, 4_000_000


def frame(out, number):
    """An Ethernet frame of UDP with a payload of 32 bytes, made unique by `number`."""
    flow = number % 16
    here, there = (bytes([10, 0, 1, 1]), 5000 + flow), (bytes([10, 0, 2, 1]), 7)
    (src, sport), (dst, dport) = (here, there) if out else (there, here)
    udp = struct.pack(">HHHH", sport, dport, 40, 0) + struct.pack(">II", number, out) + bytes(24)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 60, number & 0xFFFF, 0, 64, 17, 0, src, dst)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return bytes([2, 0, 0, 0, 0, 1 + out, 2, 0, 0, 0, 0, 2 - out, 8, 0]) + head + udp


class Capture:
    """A file that is written in the order of time; frames may be passed up to half a second out of order."""

    def __init__(self, path):
        self.file = open(path, "wb", buffering=1 << 20)
        self.file.write(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
        self.waiting, self.frames = [], 0

    def see(self, at, out, number):
        heapq.heappush(self.waiting, (at, out, number))
        self.write(at - 500_000_000)

    def write(self, before):
        while self.waiting and self.waiting[0][0] < before:
            at, out, number = heapq.heappop(self.waiting)
            bytes_ = frame(out, number)
            self.file.write(struct.pack("<IIII", at // 10**9, at % 10**9, len(bytes_), len(bytes_)) + bytes_)
            self.frames += 1

    def close(self):
        self.write(1 << 63)
        self.file.close()


def make(folder, minutes, rate):
    choose = random.Random(1)
    reference, monitor = (Capture(os.path.join(folder, name)) for name in ("ref.pcap", "mon.pcap"))

    def there(t):
        return t + AHEAD + (t - START) // 1_000_000 * SKEW_PPM

    for number in range(int(minutes * 60 * rate)):
        t = START + int(number * 1e9 / rate) + choose.randrange(int(8e8 / rate))
        out, back = OUT + choose.randrange(JITTER), BACK + choose.randrange(JITTER)
        answered = t + out + 200_000 + choose.randrange(300_000)
        reference.see(t, 1, number)
        if choose.random() >= 0.001:
            monitor.see(there(t + out), 1, number)
            monitor.see(there(answered), 0, number)
            if choose.random() >= 0.001:
                reference.see(answered + back, 0, number)
    for capture in (reference, monitor):
        capture.close()
    return reference.frames + monitor.frames


def run(arguments, lines=None):
    """Hash of its output, which is also appended to `lines`; its processor seconds, seconds, and peak memory in megabytes."""
    begun, digest = time.monotonic(), hashlib.sha256()
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    while block := child.stdout.read(1 << 20):
        digest.update(block)
        if lines:
            lines.update(block)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(arguments)}: status {child.returncode}")
    return digest.hexdigest(), used.ru_utime + used.ru_stime, time.monotonic() - begun, used.ru_maxrss / 1024


def main():
    jitlat = sys.argv[1]
    minutes, parts, rate = (float(text) for text in (sys.argv[2:5] + ["60", "6", "200"][len(sys.argv) - 2 :])[:3])
    parts, long = int(parts), 60 * minutes
    with tempfile.TemporaryDirectory(dir=sys.argv[5] if len(sys.argv) > 5 else None) as folder:
        frames = make(folder, minutes, rate)
        ref, mon, plan = (os.path.join(folder, name) for name in ("ref.pcap", "mon.pcap", "plan.json"))
        size = os.path.getsize(ref) + os.path.getsize(mon)
        print(f"two captures of {minutes:g} minutes: {frames} frames, {size / 1e6:.0f} MB; each row: processor seconds, seconds, MB held", flush=True)

        def show(name, used):
            print(f"{name:<28} {used[1]:8.2f} {used[2]:8.2f} {used[3]:8.0f}", flush=True)

        both = [jitlat, "spp", "-f", ref, "-F", mon]
        columns = ["-p", "-O", "-q"]
        whole = run(both + columns)
        show("whole", whole)
        show("first pass", run(both + ["--write-plan", plan]))
        states, lines = [], hashlib.sha256()
        for k in range(parts):
            cut = [f"+{long * i / parts:g}" if 0 < i < parts else "" for i in (k, k + 1)]
            states.append(os.path.join(folder, f"{k}.part"))
            part = ["--plan", plan, "--keep", "..".join(cut), "--state", states[-1]]
            show(f"part {k + 1} of {parts}", run(both + part + columns, lines))
        joined = run([jitlat, "spp", "--join"] + states + columns)
        show(f"joined, states of {sum(map(os.path.getsize, states)) / 1e6:.1f} MB", joined)
        same = joined[0] == whole[0]
        print(f"joined = whole: {same}; lines of the parts one after the other = whole: {lines.hexdigest() == whole[0]}")
        sys.exit(not same)


main()

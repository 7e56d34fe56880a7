#!/usr/bin/env python3
"""Error of the delays that each instrument and protocol reports, compared with captures at both hosts: python3 benches/bias.py JITLAT [PACKETS] (root, tcpdump).

Two network namespaces joined by a veth pair, tcpdump with nanoseconds at each end. Prints a Markdown table of each packet's (none is lost) delay or round trip by kernel
stamps minus the captures': the median, the 1st and the 99th percentile; us. `PROC`: the reported time of a reflector from
the arrival of a request to the sending of its answer, minus the time in its host's capture."""
import bisect, csv, io, os, shutil, signal, statistics, struct, subprocess, sys, tempfile, time

JITLAT, PACKETS = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000
NAMES = [f"bias{os.getpid()}a", f"bias{os.getpid()}b"]
HOSTS = ["10.77.9.1", "10.77.9.2"]

PING = ["icmp", "stamp", "twamp", "lamp", "irtt"]


def sh(line):
    subprocess.run(line.split(), check=True)


def inside(k, *words, **how):
    return subprocess.Popen(["ip", "netns", "exec", NAMES[k], *words], **how)


def read(path):
    """Returns (time in ns, source, protocol, IP packet) of each packet."""
    data, at = open(path, "rb").read(), 24
    while at + 16 <= len(data):
        s, ns, size, _ = struct.unpack("<4I", data[at:at + 16])
        ip = data[at + 16 + 14:at + 16 + size]
        at += 16 + size
        if len(ip) >= 20 and ip[0] >> 4 == 4:
            yield s * 10**9 + ns, ".".join(map(str, ip[12:16])), ip[9], ip


def key(ip):
    """The packet without TTL and checksum."""
    return ip[4:6] + ip[9:10] + ip[12:]


def measured(work, line, wanted):
    """Runs a test between captures; returns its rows and, by packet, the times at both hosts."""
    files = [os.path.join(work, f"{k}.pcap") for k in (0, 1)]
    taps = [inside(k, "tcpdump", "-i", "veth", "-s", "128", "-j", "host", "--nano", "-B", "8192", "-w", files[k], stderr=subprocess.DEVNULL) for k in (0, 1)]
    time.sleep(1)
    out = os.path.join(work, "rows.csv")
    test = inside(0, JITLAT, *line.split(), cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, error = test.communicate(timeout=120)
    if test.returncode:
        raise SystemExit(f"jitlat {line}: {error.decode()}")
    time.sleep(1)
    for tap in taps:
        tap.send_signal(signal.SIGINT)
        tap.wait(10)
    seen = [{}, {}]
    for k in (0, 1):
        for at, source, protocol, ip in read(files[k]):
            if wanted(protocol, ip):
                seen[k].setdefault((source, key(ip)), at)
    return out, seen


def figures(differences):
    d = sorted(x / 1000 for x in differences)
    at = lambda share: d[min(len(d) - 1, int(share * len(d)))]
    return f"{statistics.median(d):.2f} | {at(.01):.2f} | {at(.99):.2f} | {len(d)}"


def row(name, what, differences):
    print(f"| {name} | {what} | {figures(differences)} |", flush=True)


def rows(path):
    text = open(path).read()
    found = list(csv.DictReader(io.StringIO("\n".join(l for l in text.split("\n") if l and not l.startswith("#")))))
    return found


def nearest(times, at):
    """Index of the time closest to `at`; other conversations have packets, too."""
    k = bisect.bisect(times, at)
    return min((j for j in (k - 1, k) if 0 <= j < len(times)), key=lambda j: abs(times[j] - at))


def main():
    work = tempfile.mkdtemp(prefix="jitlat-bias-")
    for name in NAMES:
        sh(f"ip netns add {name}")
    server = None
    try:
        sh(f"ip link add veth netns {NAMES[0]} type veth peer name veth netns {NAMES[1]}")
        for k in (0, 1):
            for line in (f"ip addr add {HOSTS[k]}/24 dev veth", "ip link set veth up", "ip link set lo up"):
                sh(f"ip netns exec {NAMES[k]} {line}")
        server = inside(1, JITLAT, "serve", "--open", "jitlat", cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        print("| test | what | median | 1 % | 99 % | packets |\n|---|---|---|---|---|---|")
        usual = f"-n {PACKETS} -p 1ms -l 200 --csv rows.csv"
        for name, line in [("one way, jitlat", ""), ("one way, owamp", "--proto owamp")]:
            for way in ("", "-R"):
                long = lambda protocol, ip: protocol == 17 and struct.unpack(">H", ip[2:4])[0] == 228
                path, seen = measured(work, f"{HOSTS[1]} {line} {way} {usual} -o {len(os.listdir(work))}.log", long)
                source = HOSTS[1] if way else HOSTS[0]
                first, last = (1, 0) if way else (0, 1)
                passed = sorted((at, seen[last][p]) for p, at in seen[first].items() if p[0] == source and p in seen[last])
                found = sorted((r for r in rows(path) if r["tx_ns"] and r["rx_ns"]), key=lambda r: int(r["tx_ns"]))
                times = [a for a, _ in passed]
                pairs = [(r, passed[nearest(times, int(r["tx_ns"]))]) for r in found]
                row(name + (", down" if way else ", up"), "delay", [int(r["rx_ns"]) - int(r["tx_ns"]) - (b - a) for r, (a, b) in pairs])
        for name in PING:
            number = 1 if name == "icmp" else 17
            of_test = lambda p, ip: p == number and struct.unpack(">H", ip[2:4])[0] >= 200
            path, seen = measured(work, f"ping {HOSTS[1]} --proto {name} {usual}", of_test)
            times = lambda k, source: sorted(at for (s, _), at in seen[k].items() if s == source)
            a, b, c, d = times(0, HOSTS[0]), times(1, HOSTS[0]), times(1, HOSTS[1]), times(0, HOSTS[1])
            found = sorted((r for r in rows(path) if r["sent_ns"] and r["returned_ns"]), key=lambda r: int(r["sent_ns"]))
            if len(a) == len(b) == len(c) == len(d):
                places = [nearest(a, int(r["sent_ns"])) for r in found]
                a, b, c, d = ([times[k] for k in places] for times in (a, b, c, d))
            else:
                print(f"| ping, {name} | {len(a)} requests, {len(d)} answers captured, {len(found)} rows: not comparable |  |  |  |  |")
                continue
            row(f"ping, {name}", "round trip", [int(r["returned_ns"]) - int(r["sent_ns"]) - (y - x) for r, x, y in zip(found, a, d)])
            if all(r["arrived_ns"] and r["answered_ns"] for r in found):
                row(f"ping, {name}", "way there", [int(r["arrived_ns"]) - int(r["sent_ns"]) - (y - x) for r, x, y in zip(found, a, b)])
                row(f"ping, {name}", "way back", [int(r["returned_ns"]) - int(r["answered_ns"]) - (y - x) for r, x, y in zip(found, c, d)])
                row(f"ping, {name}", "T3 before the wire", [y - int(r["answered_ns"]) for r, y in zip(found, c)])
    finally:
        if server:
            server.terminate()
            server.wait(10)
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name])
        shutil.rmtree(work)


main()

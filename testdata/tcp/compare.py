#!/usr/bin/env python3
"""Counts of `jitlat tcp`, tshark and tcptrace: python3 compare.py JITLAT FOLDER. Prints a table in Markdown."""
import glob, json, os, re, subprocess, sys, tempfile

FLAGS = ["retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order", "lost_segment",
         "duplicate_ack", "zero_window", "zero_window_probe", "window_full", "keep_alive"]


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def jitlat(program, capture):
    c = json.loads(run(program, "tcp", capture, "--json", "-"))["connections"][0]
    total = lambda key: sum(c[way][key] for way in ("up", "down"))
    keys = ("retransmissions", "fast", "timeouts", "spurious", "out_of_order", "duplicates", "lost_before", "lost_after",
            "unfilled_gaps", "duplicate_acks", "zero_windows", "window_full", "keep_alives")
    found = {key: total(key) for key in keys}
    return found | {"rtt": c["up"]["rtt_ack_ns"], "bytes": c["up"]["unique_bytes"]}


def tshark(capture):
    fields = [w for flag in FLAGS for w in ("-e", "tcp.analysis." + flag)]
    rows = [line.split("\t") for line in run("tshark", "-r", capture, "-T", "fields", *fields).split("\n") if line.strip("\n")]
    found = {flag: sum(bool(row[k]) for row in rows if len(row) > k) for k, flag in enumerate(FLAGS)}
    rtts = sorted(float(x) for x in run("tshark", "-r", capture, "-Y", "tcp.analysis.ack_rtt && tcp.srcport==5001", "-T", "fields",
                                        "-e", "tcp.analysis.ack_rtt").split())
    return found | {"rtts": rtts}


def tcptrace(capture):
    # It reads no captures of bare IP packets.
    data = open(capture, "rb").read()
    out, at = data[:20] + b"\1\0\0\0", 24
    while at < len(data):
        record = data[at:at + 16]
        length = int.from_bytes(record[8:12], "little")
        whole = int.from_bytes(record[12:16], "little")
        out += record[:8] + (length + 14).to_bytes(4, "little") + (whole + 14).to_bytes(4, "little")
        out += bytes(12) + b"\x08\x00" + data[at + 16:at + 16 + length]
        at += 16 + length
    with tempfile.NamedTemporaryFile(suffix=".pcap") as ethernet:
        ethernet.write(out)
        ethernet.flush()
        text = run("tcptrace", "-lrn", ethernet.name)
    of = lambda name: sum(int(x) for x in re.findall(rf"\b{re.escape(name)}:\s+(\d+)", text))
    found = {name: of(name) for name in ("rexmt data pkts", "outoforder pkts", "zwnd probe pkts", "unique bytes sent")}
    average = re.search(r"RTT avg:\s+([\d.]+) ms", text)
    return found | {"rtt": float(average.group(1)) if average else None}


if __name__ == "__main__":
    program, folder = sys.argv[1:]
    ways = [("retransmissions", lambda j, t, r: (j["retransmissions"], t["retransmission"], r["rexmt data pkts"])),
            ("of them fast", lambda j, t, r: (j["fast"], t["fast_retransmission"], "")),
            ("spurious", lambda j, t, r: (j["spurious"], t["spurious_retransmission"], "")),
            ("out of order", lambda j, t, r: (j["out_of_order"], t["out_of_order"], r["outoforder pkts"])),
            ("duplicates", lambda j, t, r: (j["duplicates"], "", "")),
            ("lost before the point", lambda j, t, r: (j["lost_before"], t["lost_segment"], "")),
            ("duplicate ACKs", lambda j, t, r: (j["duplicate_acks"], t["duplicate_ack"], "")),
            ("zero windows", lambda j, t, r: (j["zero_windows"], t["zero_window"], "")),
            ("window full", lambda j, t, r: (j["window_full"], t["window_full"], "")),
            ("keep-alives", lambda j, t, r: (j["keep_alives"], t["keep_alive"] + t["zero_window_probe"], r["zwnd probe pkts"])),
            ("RTT by ACK: samples", lambda j, t, r: ((j["rtt"] or {}).get("count", 0), len(t["rtts"]), "")),
            ("RTT by ACK: median, ms", lambda j, t, r: (f"{j['rtt']['median'] / 1e6:.2f}" if j["rtt"] else "", f"{1e3 * t['rtts'][len(t['rtts']) // 2]:.2f}" if t["rtts"] else "", "")),
            ]
    print("| capture | " + " | ".join(name for name, _ in ways) + " |")
    print("|---|" + "---|" * len(ways))
    for capture in sorted(glob.glob(os.path.join(folder, "*.pcap"))):
        found = jitlat(program, capture), tshark(capture), tcptrace(capture)
        cells = [" / ".join(str(x) for x in way(*found) if x != "") for _, way in ways]
        print(f"| {os.path.basename(capture)[:-5]} | " + " | ".join(cells) + " |")

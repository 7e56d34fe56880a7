#!/usr/bin/env python3
"""Traffic for lab.sh: streams of fixed sizes, bulk transfers, and keys typed into a remote shell.

  traffic.py probes DST SIZES ROUNDS GAP_MS   UDP to port 5001, each probe right behind a primer of its size to
                                              port 5999: a shaper that charges after sending then delays the
                                              probe by exactly one serialisation time
  traffic.py drain SECONDS                    receive everything at both ports
  traffic.py send DST PORT SECONDS            one TCP stream as fast as it goes, Reno
  traffic.py sink PORT SECONDS                its other end
  traffic.py type DST PORT SECONDS            keys at a person's pace, over TCP without delay
  traffic.py shell PORT SECONDS               echoes each key, and prints a screen after every twentieth
"""
import os, random, select, socket, struct, sys, time


def probes(dst, sizes, rounds, gap_ms):
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for s, port in zip(socks, (5999, 5001)):
        s.connect((dst, port))
    try:
        # A primer that leaves long before its probe does not delay it.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        pass
    rng, due, n = random.Random(dst), time.monotonic(), 0
    # All rounds of one size, so that both ends send the same size at a time.
    for size in map(int, sizes.split(",")):
        for _ in range(int(rounds)):
            body = struct.pack("!Q", n).ljust(size, b"\0")[:size]
            for s in socks:
                try:
                    s.send(body)
                except ConnectionRefusedError:
                    pass  # the far end is not there yet, or no longer
            n += 1
            due += float(gap_ms) / 1e3 * rng.uniform(0.9, 1.1)
            time.sleep(max(0.0, due - time.monotonic()))


def drain(seconds):
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for s, port in zip(socks, (5999, 5001)):
        s.bind(("0.0.0.0", port))
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for s in select.select(socks, [], [], 0.2)[0]:
            s.recv(65535)


def send(dst, port, seconds):
    c = socket.socket()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1410)  # 1450-byte packets
    c.settimeout(30)
    c.connect((dst, int(port)))
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        try:
            c.send(bytes(1 << 16))
        except TimeoutError:
            pass
    # Unsent data would drain for seconds.
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()


def listen(port, seconds):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", int(port)))
    server.listen(8)
    server.settimeout(1)
    return server, time.monotonic() + float(seconds)


def sink(port, seconds):
    server, end = listen(port, seconds)
    open_socks = []
    while time.monotonic() < end:
        ready = select.select([server, *open_socks], [], [], 0.2)[0]
        for s in ready:
            if s is server:
                open_socks.append(server.accept()[0])
                continue
            try:
                data = s.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                open_socks.remove(s)
                s.close()


def type_keys(dst, port, seconds):
    c = socket.create_connection((dst, int(port)), timeout=10)
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    c.setblocking(False)
    rng, end = random.Random(7), time.monotonic() + float(seconds)
    while time.monotonic() < end:
        c.send(bytes(36))
        wake = time.monotonic() + rng.choice([0.08, 0.12, 0.2, 0.3, 0.6])
        while (left := wake - time.monotonic()) > 0:
            if select.select([c], [], [], left)[0] and not c.recv(1 << 16):
                return


def shell(port, seconds):
    server, end = listen(port, seconds)
    c = None
    while c is None and time.monotonic() < end:
        try:
            c = server.accept()[0]
        except TimeoutError:
            pass
    if c is None:
        return
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    c.settimeout(1)
    keys = 0
    while time.monotonic() < end:
        try:
            data = c.recv(1 << 16)
        except TimeoutError:
            continue
        if not data:
            return
        keys += 1
        c.send(bytes(1200) if keys % 20 == 0 else bytes(36))


COMMANDS = {"probes": probes, "drain": drain, "send": send, "sink": sink, "type": type_keys, "shell": shell}
if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
    sys.exit(__doc__)
COMMANDS[sys.argv[1]](*sys.argv[2:])

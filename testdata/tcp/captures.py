#!/usr/bin/env python3
"""Makes the captures of this folder: python3 captures.py FOLDER [NAME…] (root).

Two network namespaces, client and server, each with a TUN device; this program carries packets between them, 10 ms in each
direction, drops, delays and copies those that a scenario names, and writes the packets at its capture point. The point is at the
client's side of the path unless a scenario says otherwise. Only headers are stored (SNAP bytes)."""
import ctypes, fcntl, heapq, os, select, socket, struct, subprocess, sys, threading, time

SNAP, DELAY, PORT = 88, 0.010, 5001
CLIENT, SERVER = "10.99.0.1", "10.99.0.2"
libc = ctypes.CDLL(None, use_errno=True)


def namespace(address, peer, settings):
    """Puts the calling thread into a separate network namespace with a TUN device; returns the device."""
    if libc.unshare(0x40000000):
        raise OSError(ctypes.get_errno(), "unshare: are you root?")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"path", 0x0001 | 0x1000))
    run = lambda line: subprocess.run(line.split(), check=True)
    run(f"ip addr add {address} peer {peer} dev path")
    run("ip link set lo up")
    run("ip link set path up")
    for name, value in {"tcp_no_metrics_save": "1", **settings}.items():
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(value)
    return tun


class Packet:
    def __init__(self, data):
        self.data, head = data, (data[0] & 15) * 4
        self.tcp = data[0] >> 4 == 4 and data[9] == 6
        if self.tcp:
            self.seq, self.ack = struct.unpack(">2I", data[head + 4:head + 12])
            self.flags = data[head + 13]
            self.length = struct.unpack(">H", data[2:4])[0] - head - (data[head + 12] >> 4) * 4


class Path:
    """Carries packets. `rule(path, up, n, packet)` returns the additional delays of its copies: [] drops it, [0] passes it.
    n counts data segments of that direction from 1; 0 is a segment without data."""

    def __init__(self, name, folder, rule, at_server=False, keep=lambda path, up, n, packet: True):
        self.rule, self.at_server, self.keep = rule, at_server, keep
        self.file = open(os.path.join(folder, name + ".pcap"), "wb")
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAP, 101))
        self.count, self.waiting, self.number, self.state = [0, 0], [], 0, {}

    def write(self, up, n, packet):
        if packet.tcp and self.keep(self, up, n, packet):
            now, data = time.time_ns() // 1000, packet.data[:SNAP]
            self.file.write(struct.pack("<4I", now // 10**6, now % 10**6, len(data), len(packet.data)) + data)

    def carry(self, tuns, over):
        while not over.is_set() or self.waiting:
            pause = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else 0.05
            ready, _, _ = select.select(tuns, [], [], pause)
            for tun in ready:
                up, packet = tun == tuns[0], Packet(os.read(tun, 65536))
                n = 0
                if packet.tcp and packet.length > 0:
                    self.count[up] += 1
                    n = self.count[up]
                near = up != self.at_server
                if near:
                    self.write(up, n, packet)
                for more in self.rule(self, up, n, packet) if packet.tcp else []:
                    self.number += 1
                    due = time.monotonic() + DELAY + more
                    heapq.heappush(self.waiting, (due, self.number, up, n, packet))
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                _, _, up, n, packet = heapq.heappop(self.waiting)
                if up == self.at_server:
                    self.write(up, n, packet)
                os.write(tuns[1] if up else tuns[0], packet.data)
        self.file.close()


def run(name, folder, rule=lambda path, up, n, packet: [0], client=None, server=None, settings={}, **of_path):
    tuns, ready, over, failed = [None, None], threading.Barrier(3), threading.Event(), []

    def end(index, address, peer, work):
        try:
            tuns[index] = namespace(address, peer, settings)
            ready.wait()
            work()
        except Exception as e:
            failed.append(e)
            ready.abort()

    def receive():
        listener = socket.socket()
        if server:
            return server(listener)
        listener.bind((SERVER, PORT))
        listener.listen()
        connection, _ = listener.accept()
        while connection.recv(65536):
            pass
        connection.close()

    def send():
        time.sleep(0.2)
        connection = socket.socket()
        connection.connect((SERVER, PORT))
        (client or upload())(connection)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(10)
        connection.recv(1)
        connection.close()

    threads = [threading.Thread(target=end, args=a) for a in [(0, CLIENT, SERVER, send), (1, SERVER, CLIENT, receive)]]
    for thread in threads:
        thread.start()
    ready.wait()
    path = Path(name, folder, rule, **of_path)
    carrier = threading.Thread(target=path.carry, args=(tuns, over))
    carrier.start()
    for thread in threads:
        thread.join()
    time.sleep(0.2)
    over.set()
    carrier.join()
    for tun in tuns:
        os.close(tun)
    if failed:
        raise failed[0]


def upload(size=43800, pause=0, piece=1460):
    """Sends `size` bytes; with a pause in pieces."""
    def work(connection):
        if not pause:
            return connection.sendall(bytes(size))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(size // piece):
            connection.sendall(bytes(piece))
            time.sleep(pause)
    return work


def drop(*numbers):
    """Drops the data segments of the client with these numbers."""
    return lambda path, up, n, packet: [] if up and n in numbers else [0]


def late(number, more):
    return lambda path, up, n, packet: [more] if up and n == number else [0]


def twice(number, more):
    return lambda path, up, n, packet: [0, more] if up and n == number else [0]


def hold_answers(path, up, n, packet):
    """Everything from the server waits 600 ms once, from the moment when it has 10 segments: a timeout without a loss."""
    until = path.state.setdefault("until", None)
    if up and n == 10:
        path.state["until"] = time.monotonic() + 0.6
    return [max(0, until - time.monotonic())] if not up and until else [0]


def slow_reader(wait, buffer=None):
    def work(listener):
        if buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        listener.bind((SERVER, PORT))
        listener.listen()
        connection, _ = listener.accept()
        time.sleep(wait)
        while connection.recv(65536):
            pass
        connection.close()
    return work


def idle(connection):
    """1460 bytes, then three seconds with a keep-alive each second."""
    for option, value in [(socket.TCP_KEEPIDLE, 1), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 9)]:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.sendall(bytes(1460))
    time.sleep(3.5)


def first_syn(path, up, n, packet):
    if up and packet.flags & 2 and not path.state.setdefault("dropped", False):
        path.state["dropped"] = True
        return []
    return [0]


SCENARIOS = {
    "clean": dict(),
    "loss": dict(rule=drop(12)),
    "loss-before": dict(rule=drop(12), at_server=True),
    "sack-losses": dict(rule=drop(12, 14, 16)),
    "no-sack": dict(rule=drop(12), settings={"tcp_sack": "0"}),
    "no-timestamps": dict(rule=drop(12), settings={"tcp_timestamps": "0"}),
    "tail-loss": dict(rule=drop(30, 31)),
    "reordering": dict(rule=late(12, 0.004), at_server=True, client=upload(pause=0.001)),
    "duplicate": dict(rule=twice(12, 0.003), at_server=True, client=upload(pause=0.001)),
    "spurious": dict(rule=hold_answers, client=upload(pause=0.002)),
    "zero-window": dict(client=upload(60000), server=slow_reader(1.5, 8192)),
    "small-window": dict(client=upload(), server=slow_reader(0, 6000)),
    "window-scaling": dict(client=upload(131072), settings={"tcp_rmem": "4096 400000 4000000"}),
    "one-way": dict(rule=drop(12), keep=lambda path, up, n, packet: up),
    "mid-stream": dict(rule=drop(22), keep=lambda path, up, n, packet: path.count[1] >= 15),
    "keep-alive": dict(client=idle),
    "lost-syn": dict(rule=first_syn),
}

if __name__ == "__main__":
    folder, names = sys.argv[1], sys.argv[2:] or list(SCENARIOS)
    os.makedirs(folder, exist_ok=True)
    for name in names:
        run(name, folder, **SCENARIOS[name])
        print(name, os.path.getsize(os.path.join(folder, name + ".pcap")))

#!/usr/bin/env python3
"""Makes spin.pcap and spin.tsv again: python3 capture.py FOLDER (root, tcpdump, editcap, tshark, openssl, aioquic 1.7.2).

An HTTP-less QUIC connection of aioquic between two network namespaces: 40 bytes every 10 ms, which the server returns. A relay before the server holds
each datagram for 20 ms, in both directions. Captured at the client, 80 bytes of each frame, the first 180 frames. `spin.tsv` contains the packets as tshark reads them."""
import asyncio, os, ssl, subprocess, sys, time

CLIENT, SERVER, PORT, DELAY = "192.0.2.1", "192.0.2.2", 4433, .02


async def serve():
    from aioquic.asyncio import serve
    from aioquic.quic.configuration import QuicConfiguration
    settings = QuicConfiguration(is_client=False, alpn_protocols=["x"])
    settings.load_cert_chain("cert.pem", "key.pem")

    async def echo(reader, writer):
        while data := await reader.read(4096):
            writer.write(data)
        writer.write_eof()

    await serve("127.0.0.1", PORT + 1, configuration=settings, stream_handler=lambda r, w: asyncio.ensure_future(echo(r, w)))
    await asyncio.sleep(60)


async def relay():
    loop, client = asyncio.get_running_loop(), []

    class Near(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            client[:] = [address]
            loop.call_later(DELAY, far.sendto, data)

    class Far(asyncio.DatagramProtocol):
        def datagram_received(self, data, address):
            loop.call_later(DELAY, near.sendto, data, client[0])

    near, _ = await loop.create_datagram_endpoint(Near, local_addr=(SERVER, PORT))
    far, _ = await loop.create_datagram_endpoint(Far, remote_addr=("127.0.0.1", PORT + 1))
    await asyncio.sleep(60)


async def ask():
    from aioquic.asyncio import connect
    from aioquic.quic.configuration import QuicConfiguration
    settings = QuicConfiguration(is_client=True, alpn_protocols=["x"], verify_mode=ssl.CERT_NONE)
    async with connect(SERVER, PORT, configuration=settings) as connection:
        reader, writer = await connection.create_stream()

        async def send():
            for _ in range(200):
                writer.write(b"x" * 40)
                await asyncio.sleep(.01)
            writer.write_eof()

        sending = asyncio.ensure_future(send())
        while await reader.read(4096):
            pass
        await sending


def main(folder):
    os.chdir(folder)
    subprocess.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=quic.example".split(), check=True, stderr=subprocess.DEVNULL)
    names = [f"quic{os.getpid()}{k}" for k in "ab"]
    line = lambda text: subprocess.run(text.split(), check=True)
    inside = lambda k, *words: subprocess.Popen(["ip", "netns", "exec", names[k], *words])
    own = lambda k, role: inside(k, sys.executable, os.path.abspath(__file__), role)
    started = []
    try:
        for name in names:
            line(f"ip netns add {name}")
        line(f"ip link add q0 netns {names[0]} type veth peer name q0 netns {names[1]}")
        for name, address in zip(names, (CLIENT, SERVER)):
            line(f"ip -n {name} addr add {address}/24 dev q0")
            line(f"ip -n {name} link set q0 up")
            line(f"ip -n {name} link set lo up")
        started += [inside(0, "tcpdump", "-i", "q0", "-s", "80", "-j", "host", "--nano", "-U", "-w", "whole.pcap", "udp"), own(1, "serve"), own(1, "relay")]
        time.sleep(2)
        own(0, "ask").wait(30)
    finally:
        for process in started:
            process.terminate()
            process.wait(10)
        for name in names:
            line(f"ip netns del {name}")
    line("editcap -F nsecpcap -r whole.pcap spin.pcap 1-180")
    fields = "tshark -r spin.pcap -d udp.port==4433,quic -T fields -e frame.time_epoch -e ip.src -e quic.spin_bit"
    rows = subprocess.run(fields.split(), check=True, capture_output=True, text=True).stdout.splitlines()
    open("spin.tsv", "w").write("".join(row + "\n" for row in rows if not row.endswith("\t")))
    for file in ("whole.pcap", "key.pem", "cert.pem"):
        os.remove(file)


roles = {"serve": serve, "relay": relay, "ask": ask}
if sys.argv[1] in roles:
    asyncio.run(roles[sys.argv[1]]())
else:
    main(os.path.abspath(sys.argv[1]))

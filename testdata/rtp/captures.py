#!/usr/bin/env python3
"""Makes the captures of this folder: python3 captures.py FOLDER. Everything follows from the numbers below."""
import struct, sys

SNAP = 54  # of RTP packets: IPv4, UDP and RTP headers, and 14 bytes
A, B, PROXY_A, PROXY_B = ("192.0.2.1", 4000), ("198.51.100.2", 5000), ("192.0.2.1", 5060), ("198.51.100.2", 5060)


def udp(source, to, payload):
    ip = lambda text: bytes(int(part) for part in text.split("."))
    datagram = struct.pack(">4H", source[1], to[1], 8 + len(payload), 0) + payload
    head = struct.pack(">2B3H2BH", 0x45, 0xB8, 20 + len(datagram), 0, 0, 64, 17, 0)
    return head + ip(source[0]) + ip(to[0]) + datagram


def rtp(kind, marker, number, timestamp, ssrc, payload):
    return struct.pack(">2BH2I", 0x80, kind | marker << 7, number & 0xFFFF, timestamp & 0xFFFFFFFF, ssrc) + payload


def write(path, packets):
    """Writes packets, each a time in microseconds, a datagram and the number of bytes to store."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for at, data, snap in sorted(packets, key=lambda packet: packet[0]):
            at += 1_700_000_000 * 10**6
            kept = data[:snap]
            file.write(struct.pack("<4I", at // 10**6, at % 10**6, len(kept), len(data)) + kept)


def spread(k, most):
    """Returns a delay between 0 and `most` microseconds that looks random."""
    return (k * 2654435761 >> 7) % (most + 1)


def signalled_call():
    """A call of ten seconds with SIP, G.711 and RTCP, recorded 20 ms before B and 10 ms after A. From B to A a queue delays
    packets by up to 60 ms from 4 s to 6 s, and ten packets are lost at 5 s in two bursts. A is silent from 3 s to 5 s,
    and dials a digit at 7 s."""
    packets = []
    say = lambda at, source, to, payload: packets.append((at, udp(source, to, payload), 65535))
    sdp = lambda end: (f"v=0\r\no=- 1 1 IN IP4 {end[0]}\r\ns=-\r\nc=IN IP4 {end[0]}\r\nt=0 0\r\nm=audio {end[1]} RTP/AVP 0 101\r\n"
                       "a=rtpmap:101 telephone-event/8000\r\na=ptime:20\r\n")

    def sip(first, to_tag, number, method, body=""):
        lines = [first, "Via: SIP/2.0/UDP 192.0.2.1:5060", "From: \"Alice\" <sip:alice@example.com>;tag=a1",
                 f"To: <sip:bob@example.org>{to_tag}", "Call-ID: 7f3a@192.0.2.1", f"CSeq: {number} {method}"]
        lines += ["Content-Type: application/sdp"] if body else []
        return ("\r\n".join(lines + [f"Content-Length: {len(body)}", "", ""]) + body).encode()

    say(0, PROXY_A, PROXY_B, sip("INVITE sip:bob@example.org SIP/2.0", "", 1, "INVITE", sdp(A)))
    say(150_000, PROXY_B, PROXY_A, sip("SIP/2.0 180 Ringing", ";tag=b1", 1, "INVITE"))
    say(2_000_000, PROXY_B, PROXY_A, sip("SIP/2.0 200 OK", ";tag=b1", 1, "INVITE", sdp(B)))
    say(2_020_000, PROXY_A, PROXY_B, sip("ACK sip:bob@example.org SIP/2.0", ";tag=b1", 1, "ACK"))
    begin, number = 2_100_000, 0
    for k in range(500):
        at = begin + 20_000 * k + spread(k, 2000)
        timestamp = 90_000 + 160 * k
        if 150 <= k < 250:
            continue  # silence
        if 350 <= k < 355:
            event = struct.pack(">2BH", 5, 10 | (0x80 if k == 354 else 0), 160 * (k - 349))
            payload = rtp(101, k == 350, 1000 + number, 90_000 + 160 * 350, 0x1111AAAA, event)
        else:
            payload = rtp(0, k in (0, 250), 1000 + number, timestamp, 0x1111AAAA, bytes(160))
        packets.append((at, udp(A, B, payload), SNAP))
        number += 1
    for k in range(500):
        queue = 60_000 * min(k - 200, 300 - k) // 50 if 200 <= k < 300 else 0
        if k in (250, 251, 252, 253, 254, 258, 259, 260, 261, 262):
            continue
        at = begin + 7_000 + 20_000 * k + spread(k + 9999, 1500) + queue
        packets.append((at, udp(B, A, rtp(0, k == 0, 65_400 + k, 160 * k, 0x2222BBBB, bytes(160))), SNAP))
    control = lambda end: (end[0], end[1] + 1)
    for k, at in enumerate((4_000_000, 9_000_000)):
        ntp = lambda at: (0xE8F0_0000 + at // 10**6, (at % 10**6) * 2**32 // 10**6)
        middle = lambda at: ((ntp(at)[0] & 0xFFFF) << 16) | ntp(at)[1] >> 16
        held = 65536 // 2  # half a second
        # A sends its time; B answers half a second later, 40 ms of round trip beyond the point. And vice versa, 20 ms.
        a_at, b_at = at, at + 250_000
        sender = lambda ssrc, at, count: struct.pack(">2BH6I", 0x80, 200, 6, ssrc, *ntp(at), 0, count, count * 160)
        name = lambda ssrc: struct.pack(">2BHI4s", 0x81, 202, 2, ssrc, b"\1\1x\0")
        block = lambda ssrc, lost, fraction, jitter, at: struct.pack(">7I", ssrc, fraction << 24 | lost, 0, jitter, middle(at), held, 0)[:24]
        report = lambda own, of: struct.pack(">2BHI", 0x81, 201, 7, own) + of
        say(a_at, control(A), control(B), sender(0x1111AAAA, a_at, 100) + name(0x1111AAAA))
        voip = struct.pack(">2BHI", 0x80, 207, 10, 0x2222BBBB) + struct.pack(">2BHI4B4H", 7, 0, 8, 0x1111AAAA, 0, 2, 0, 0, 0, 0, 60, 45)
        voip += struct.pack(">8B", 0xEC, 0xB5, 127, 16, 91, 127, 43, 42) + struct.pack(">2B3H", 0xB0, 0, 40, 60, 120)
        say(a_at + 500_000 + 40_000, control(B), control(A), report(0x2222BBBB, block(0x1111AAAA, 0, 0, 16, a_at)) + voip)
        say(b_at, control(B), control(A), sender(0x2222BBBB, b_at, 100) + name(0x2222BBBB))
        lost = 10 if k else 0
        say(b_at + 500_000 + 20_000, control(A), control(B), report(0x1111AAAA, block(0x2222BBBB, lost, 10 * k, 80 * (k + 1), b_at)))
    say(12_200_000, PROXY_A, PROXY_B, sip("BYE sip:bob@example.org SIP/2.0", ";tag=b1", 2, "BYE"))
    return packets


def opus():
    """Four seconds of a dynamic payload type with 48 kHz in one direction, without signalling: one packet in 40 is lost, one
    in 50 arrives twice, and one in 60 after its successor."""
    packets = []
    for k in range(200):
        if k % 40 == 17:
            continue
        at = 20_000 * k + spread(k, 3000) + (25_000 if k % 60 == 31 else 0)
        data = udp(("203.0.113.9", 40000), ("192.0.2.1", 40001), rtp(111, k == 0, 5 + k, 960 * k, 0x3333CCCC, bytes(80)))
        packets.append((at, data, SNAP))
        if k % 50 == 23:
            packets.append((at + 400, data, SNAP))
    return packets


folder = sys.argv[1]
write(f"{folder}/call.pcap", signalled_call())
write(f"{folder}/opus.pcap", opus())

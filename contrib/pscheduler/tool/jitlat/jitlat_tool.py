"""Settings, durations and the command line of jitlat, for all executables of this pScheduler tool.

Only the standard library is used, so that the tool can be tried without pScheduler: each executable reads one JSON document on
standard input and writes one on standard output.
"""
import configparser
import datetime
import json
import math
import os
import re
import sys

CONFIGURATION = '/etc/pscheduler/tool/jitlat.conf'
# Defaults of the tests of pScheduler.
COUNT = {'latency': 100, 'rtt': 5}
INTERVAL = {'latency': 0.1, 'rtt': 1.0}
TIMEOUT = {'latency': 2.0, 'rtt': 1.0}
# Time for the control connection, the probes of the clocks and the transfer of the results, in seconds.
OVERHEAD = 10
# Protocols of each test; the first is the default.
PROTOCOLS = {'latency': ['jitlat', 'owamp', 'twamp', 'stamp'], 'rtt': ['icmp', 'twamp', 'stamp']}
# Option for the port of each protocol.
PORT_OPTION = {'jitlat': '--control-port', 'owamp': '--owamp-port', 'twamp': '--twamp-port', 'stamp': '--stamp-port'}
# Smallest payload of each protocol, to which padding is added.
BASE = {'jitlat': 12, 'owamp': 14, 'twamp': 41, 'stamp': 44}
MAX_SCHEMA = 4


def read():
    """Reads the document on standard input; ends the process if it is not JSON."""
    try:
        return json.load(sys.stdin)
    except ValueError as error:
        fail(f'the input is not JSON: {error}')


def write(document):
    """Writes the answer, and ends the process."""
    json.dump(document, sys.stdout)
    sys.stdout.write('\n')
    sys.exit(0)


def fail(message):
    """Ends the process with a message for pScheduler."""
    sys.stderr.write(f'{message}\n')
    sys.exit(1)


def binary():
    """Returns the path of jitlat: the setting jitlat_cmd in the section [jitlat], the variable JITLAT, or its usual place."""
    configuration = configparser.ConfigParser()
    configuration.read(CONFIGURATION)
    return configuration.get('jitlat', 'jitlat_cmd', fallback=os.environ.get('JITLAT', '/usr/bin/jitlat'))


def seconds(duration):
    """Converts a duration to seconds: a number, or an ISO 8601 duration such as PT1M30.5S."""
    if isinstance(duration, (int, float)):
        return float(duration)
    units = [('W', 604800), ('D', 86400), ('H', 3600), ('M', 60), ('S', 1)]
    match = re.fullmatch(r'P(?:(?P<W>[\d.]+)W)?(?:(?P<D>[\d.]+)D)?(?:T(?:(?P<H>[\d.]+)H)?(?:(?P<M>[\d.]+)M)?(?:(?P<S>[\d.]+)S)?)?', duration)
    if match is None:
        raise ValueError(f"'{duration}' is not a duration, for example PT10S")
    return sum(float(match[unit] or 0) * length for unit, length in units)


def iso_duration(nanoseconds):
    """Formats a time as an ISO 8601 duration: PT0.004120000S; negative times become 0."""
    return f'PT{max(nanoseconds, 0) / 1e9:.9f}S'


def instant(text):
    """Converts an ISO 8601 time to a time zone aware datetime."""
    when = datetime.datetime.fromisoformat(text.replace('Z', '+00:00'))
    return when if when.tzinfo else when.replace(tzinfo=datetime.timezone.utc)


class Request:
    """A test as pScheduler asks for it."""

    def __init__(self, kind, spec):
        self.kind, self.spec = kind, spec
        self.protocol = spec.get('protocol', PROTOCOLS[kind][0])
        self.count = spec.get('packet-count', spec.get('count', COUNT[kind]))
        self.interval = seconds(spec.get('packet-interval', spec.get('interval', INTERVAL[kind])))
        self.timeout = seconds(spec.get('packet-timeout', spec.get('timeout', TIMEOUT[kind])))
        if 'deadline' in spec and self.interval > 0:
            self.count = max(1, min(self.count, int(seconds(spec['deadline']) / self.interval)))
        self.bucket = float(spec.get('bucket-width', 0.001))
        # The client runs at the destination of a flipped test.
        flip = spec.get('flip', False)
        self.peer = spec.get('source') if flip else spec['dest']
        self.local = spec['dest'] if flip else spec.get('source')
        # The direction from the client to its peer is up.
        self.down = bool(flip) != bool(spec.get('reverse', False))

    def is_one_way(self):
        """True for a one-way test, false if jitlat sends requests that the far host answers."""
        return self.protocol in ('jitlat', 'owamp')

    def refusals(self):
        """Returns the reasons why the test cannot be run; empty if it can."""
        spec, reasons = self.spec, []
        if spec.get('schema', 1) > MAX_SCHEMA:
            reasons.append(f"schema {spec['schema']} is not supported, only up to {MAX_SCHEMA}")
        if self.protocol not in PROTOCOLS[self.kind]:
            known = ', '.join(PROTOCOLS[self.kind])
            reasons.append(f'protocol {self.protocol} is not supported for {self.kind}: choose one of {known}')
        if not self.peer:
            reasons.append('a flipped test needs a source')
        if self.count < 1 or self.interval <= 0:
            reasons.append('count and interval must be positive')
        for name in ('flow-label', 'fragment', 'ttl'):
            if name in spec:
                reasons.append(f'{name} is not supported')
        if self.kind == 'latency' and spec.get('ip-tos', 0) > 63:
            reasons.append('ip-tos is a DSCP, at most 63')
        return reasons

    def duration(self):
        """Returns the time that the test takes at most, in whole seconds."""
        return math.ceil(self.count * self.interval + self.timeout + OVERHEAD)

    def arguments(self, summary, packets):
        """Returns the arguments of jitlat, which writes the summary as JSON and the packets as CSV."""
        spec, own = self.spec, self.is_one_way()
        # The name is never the first word: it could be that of a command.
        line = ['test' if own else 'ping', '--no-log', '-q', '--json', summary, '--csv', packets]
        line += ['-n', str(self.count), '-p', str(round(self.interval * 1e9))]
        line += ['--proto', self.protocol] if self.protocol != 'jitlat' else []
        if not own:
            line += ['--timeout', f'{self.timeout}s']
        if self.protocol == 'owamp' and 'packet-timeout' in spec:
            line += ['--owamp-timeout', f'{self.timeout}s']
        if own and self.down:
            line.append('-R')
        if 'packet-padding' in spec:
            line += ['-l', str(BASE[self.protocol] + spec['packet-padding'])]
        elif 'length' in spec:
            line += ['-l', str(max(spec['length'], BASE.get(self.protocol, 16)))]
        port = spec.get('ctrl-port', spec.get('port'))
        if port is not None and self.protocol in PORT_OPTION:
            line += [PORT_OPTION[self.protocol], str(port)]
        if 'data-ports' in spec:
            line += ['-d' if own and self.down else '-s', str(spec['data-ports']['lower'])]
        if 'ip-tos' in spec:
            # A DSCP in tests of latency, the whole byte in tests of round trips.
            line += ['-D', str(spec['ip-tos'] if self.kind == 'latency' else spec['ip-tos'] >> 2)]
        if spec.get('ip-version') in (4, 6):
            line.append(f"-{spec['ip-version']}")
        if spec.get('traverse-nat') and self.protocol == 'twamp':
            line.append('--nat')
        if self.local:
            line += ['--bind', address(self.local, spec.get('ip-version'))]
        return line + ['--', self.peer]


def address(host, version):
    """Returns an address of this host for a name; the name itself if it cannot be resolved."""
    import socket
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(version, socket.AF_UNSPEC)
    try:
        return socket.getaddrinfo(host, None, family)[0][4][0]
    except OSError:
        return host


def request(document):
    """Returns the test in a document with the members type and spec; ends the process if they are missing or wrong."""
    try:
        return Request(document['type'], document['spec'])
    except KeyError as missing:
        fail(f'the test lacks {missing}')
    except ValueError as error:
        fail(str(error))

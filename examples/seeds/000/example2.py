#!/usr/bin/env python3
"""A log with the latencies of Example 2, as far as document 000 prints them: example2.py FILE

1000 TCP packets with the printed smallest, mean and largest latency, standard deviation, median, mode and percentiles of
jitter (by the floor index, which the first version used), and with the interquartile range for which the
Freedman-Diaconis rule gives the 186 bins of the printed bin size. The order is not printed: packets are in the
order of their latency. The numbers are the same in every run."""
import sys

N, PERIOD, START = 1000, 20_000_000, 1_243_453_151 * 10**9
LEAST, MEAN, STDDEV, MEDIAN = 1_615_000_000, 2_024_000_000, 1_260_000_000, 1_998_000_000


def jitter(low, high):
    """Sorted latencies above the smallest; `low` and `high` bend the parts below and above the middle half."""
    first = [k * 26_000_000 // 119 for k in range(120)]  # the fullest bin
    below = [30_000_000 + int(1_890_000_000 * (k / 125) ** low) for k in range(125)]
    middle = [MEDIAN + int((k - 254.5) * 264_260) for k in range(510)]  # interquartile range of 132 ms
    above = [2_066_000_000 + int(2_824_000_000 * (k / 234) ** high) for k in range(234)]
    last = [4_897_000_000] + [4_897_000_000 + 20_000_000 * k for k in range(10)]
    return first + below + middle + above + last + [5_077_000_000]


def moments(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5


def bisect(wrong, a, b):
    """The argument at which the ascending function `wrong` is 0."""
    for _ in range(60):
        middle = (a + b) / 2
        a, b = (a, middle) if wrong(middle) > 0 else (middle, b)
    return a


def with_mean(high):
    """Jitter with the printed mean, for this part above the middle."""
    low = bisect(lambda low: MEAN - moments(jitter(low, high)[:N])[0], 0.05, 20.0)
    return jitter(low, high)[:N]


def main(name):
    high = bisect(lambda high: STDDEV - moments(with_mean(high))[1], 0.5, 3.0)
    with open(name, "w") as log:
        header = ["Wed May 27 19:39:11 UTC 2009", "command SENDING", f"npkts {N}", "pktlen 80", "proto 6", f"period {PERIOD}"]
        header += ["src_ip 192.168.2.4", "dst_ip 192.168.2.1", "src_port 59844", "dst_port 2667", "dscp 0"]
        log.writelines(f"# {line}\n" for line in header)
        for k, above in enumerate(with_mean(high)):
            sent = START + k * PERIOD
            log.write(f"{k} {sent} {k} {sent + LEAST + above} 0\n")


main(sys.argv[1])

"""States that are cut anywhere, saved, loaded and merged equal the whole; damaged ones are refused."""

import pickle
import random

import pyarrow as pa
import pytest

import jitlat


def parts_of(table, cuts):
    ends = sorted(cuts)
    return [table.slice(a, b - a) for a, b in zip([0, *ends], [*ends, table.num_rows])]


def test_parts_are_the_whole(logs):
    chance = random.Random(7)
    for log in [log for log in logs if "verdicts" not in str(log)][:3]:
        packets = jitlat.read_log(log)
        table, whole = pa.table(packets), jitlat.analyze(packets)
        for _ in range(5):
            cuts = [chance.randrange(table.num_rows + 1) for _ in range(chance.randrange(1, 5))]
            states = []
            for part in parts_of(table, cuts):
                state = jitlat.State(packets)
                state.push(part)
                states.append(jitlat.State.load(state.bytes()))
            first, *later = states
            for state in later:
                first.merge(state)
            assert without_log(first.summary()) == without_log(whole), cuts


def without_log(summary):
    """Returns the document without warnings about the file, which its parts do not cause."""
    whole = summary.to_dict()
    whole["warnings"] = [w for w in whole["warnings"] if w.get("about") != "log"]
    return whole


def test_a_state_goes_on(logs):
    packets = jitlat.read_log(logs[1])
    table, state = pa.table(packets), jitlat.State(packets)
    for part in parts_of(table, [10, 500]):
        state.push(part)
    assert state.summary().json() == jitlat.analyze(packets).json()
    assert pickle.loads(pickle.dumps(state)).summary().received == state.summary().received


def test_damaged_states_are_refused(logs):
    packets = jitlat.read_log(logs[0])
    state = jitlat.State(packets)
    state.push(packets)
    good = state.bytes()
    for damaged in (b"", b"hello", good[:-1], good[:40] + bytes([good[40] ^ 1]) + good[41:]):
        with pytest.raises(jitlat.Error):
            jitlat.State.load(damaged)


def test_pools_merge_in_any_order(logs):
    pools = [jitlat.Pool(jitlat.analyze(log, bulk=True)) for log in logs[:6]]
    chance, results = random.Random(3), set()
    for _ in range(4):
        chance.shuffle(pools)
        whole = jitlat.Pool()
        for pool in pools:
            whole.merge(pickle.loads(pickle.dumps(pool)))
        results.add(whole.json())
    assert len(results) == 1
    assert whole.tests == 6 and whole.scalars["received"] > 0


def test_packets_that_are_no_packets(logs):
    packets = jitlat.read_log(logs[0])
    table = pa.table(packets)
    for broken in (table.drop(["seq"]), table.slice(1), table.set_column(2, "seq", table["seq"].cast(pa.float64()))):
        with pytest.raises((jitlat.Error, ValueError)):
            jitlat.analyze(broken, metadata=packets.metadata)
    with pytest.raises(jitlat.Error, match="No such file"):
        jitlat.read_log("/no/such.log")
    with pytest.raises(jitlat.Error):
        jitlat.read_log("/dev/null")

//! Classic BPF programs for the kernel's packet filter, which pass all packets that may be relevant.
//!
//! Packets with a VLAN tag or in a tunnel also pass if the kernel has not removed the encapsulation; the
//! reader filters them later.

use jitlat_core::prefix::Prefix;
use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use socket2::SockFilter;
use std::net::IpAddr;

/// Maximum number of prefixes in the kernel's filter; with more, the reader filters instead. The length of a
/// BPF program is limited, and each instruction costs time.
const MAX_PREFIXES: usize = 32;

/// EtherTypes that may encapsulate IP.
const TUNNELS: [u32; 6] = [0x8100, 0x88a8, 0x9100, 0x8864, 0x8847, 0x8848];

fn load(at: i32) -> SockFilter {
    // A negative offset selects ancillary data by number.
    SockFilter::new((BPF_LD | BPF_W | BPF_ABS) as u16, 0, 0, at as u32)
}

fn network(at: i32) -> SockFilter {
    load(libc::SKF_NET_OFF + at)
}

fn and(mask: u32) -> SockFilter {
    SockFilter::new((BPF_ALU | BPF_AND | BPF_K) as u16, 0, 0, mask)
}

/// Continues with the next instruction if the accumulator equals `value`; otherwise skips `skip`
/// instructions.
fn unless_equal(value: u32, skip: usize) -> SockFilter {
    SockFilter::new((BPF_JMP | BPF_JEQ | BPF_K) as u16, 0, skip as u8, value)
}

fn jump(over: usize) -> SockFilter {
    SockFilter::new((BPF_JMP | BPF_JA) as u16, 0, 0, over as u32)
}

fn pass(bytes: u32) -> SockFilter {
    SockFilter::new((BPF_RET | BPF_K) as u16, 0, 0, bytes)
}

/// Returns a program that passes the first `snap` bytes of every packet.
pub(super) fn everything(snap: u32) -> Vec<SockFilter> {
    vec![pass(snap)]
}

/// Returns a program that passes nothing.
pub(super) fn nothing() -> Vec<SockFilter> {
    vec![pass(0)]
}

/// Returns a program that passes the first `snap` bytes of IP packets from or to any of `prefixes`, or of
/// every packet if the list is empty or too long.
pub(super) fn hosts(prefixes: &[Prefix], snap: u32) -> Vec<SockFilter> {
    if prefixes.is_empty() || prefixes.len() > MAX_PREFIXES {
        return everything(snap);
    }
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for prefix in prefixes {
        match prefix.parts() {
            (IpAddr::V4(a), length) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                // Offsets of the source and the destination address.
                for at in [12, 16] {
                    v4.extend([network(at), and(mask), unless_equal(a.to_bits() & mask, 1), pass(snap)]);
                }
            }
            (IpAddr::V6(a), length) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                // Offsets of the source and the destination address.
                for at in [8, 24] {
                    v6.extend(long_address(at, a.to_bits(), mask));
                    v6.push(pass(snap));
                }
                // A prefix shorter than 96 bits contains either all IPv4-mapped addresses or none.
                if length < 96 && prefix.contains(IpAddr::from([127, 0, 0, 1])) {
                    v4.push(pass(snap));
                }
            }
        }
    }
    v4.push(pass(0));
    v6.push(pass(0));
    let mut program = vec![load(libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL)];
    let rest = 2 + 2 * TUNNELS.len() + 1;
    program.extend([unless_equal(0x0800, 1), jump(rest)]);
    program.extend([unless_equal(0x86dd, 1), jump(rest - 2 + v4.len())]);
    for tunnel in TUNNELS {
        program.extend([unless_equal(tunnel, 1), pass(snap)]);
    }
    program.push(pass(0));
    program.extend(v4);
    program.extend(v6);
    program
}

/// Compares 16 bytes at offset `at` of the network header with `address`. Continues with the next instruction
/// if they are equal, and skips it otherwise.
fn long_address(at: i32, address: u128, mask: u128) -> Vec<SockFilter> {
    let word = |bits: u128, i: i32| (bits >> (96 - 32 * i)) as u32;
    // Words without a bit in the mask match any value, so they need no instructions.
    let chunks: Vec<i32> = (0..4).filter(|i| word(mask, *i) != 0).collect();
    let mut code = Vec::new();
    for (n, i) in chunks.iter().enumerate() {
        let behind = 3 * (chunks.len() - n - 1);
        let mask = word(mask, *i);
        code.extend([network(at + 4 * i), and(mask), unless_equal(word(address, *i) & mask, behind + 1)]);
    }
    code
}

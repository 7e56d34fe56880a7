//! Packet sockets: their options, and [`Ring`], memory that the kernel fills with captured packets.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

/// Binds a packet socket to the interface with this index, for all protocols, and returns the interface's
/// hardware type (`ARPHRD_…`).
pub(crate) fn bind_packet(socket: BorrowedFd<'_>, index: libc::c_int) -> io::Result<u16> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a value.
    let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    name.sll_family = libc::AF_PACKET as _;
    name.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    name.sll_ifindex = index;
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer is to a live, initialised structure of the given length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length) })?;
    // SAFETY: the kernel writes at most `length` bytes into a structure that large.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut name).cast(), &raw mut length) })?;
    Ok(name.sll_hatype)
}

fn packet_option<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a live, initialised value of the given length, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            length,
        )
    })
    .map(drop)
}

/// Makes a packet socket report the full length and the VLAN tag of each packet in a control message.
pub(crate) fn enable_packet_details(socket: BorrowedFd<'_>) -> io::Result<()> {
    const ON: libc::c_int = 1;
    packet_option(socket, libc::PACKET_AUXDATA, &ON)
}

/// Puts the interface into promiscuous mode while the socket is open.
pub(crate) fn receive_everything(socket: BorrowedFd<'_>, index: libc::c_int) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as _,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    packet_option(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Returns the number of packets that a packet socket has dropped since the last call because its buffer was
/// full.
pub(crate) fn packet_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a structure that large.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut length,
        )
    })?;
    Ok(statistics.tp_drops)
}

/// Size of a block of a ring, in bytes.
const BLOCK: usize = 1 << 20;
/// Nominal packet size for the kernel's computations, in bytes; the packets in a block have any length.
const FRAME: usize = 2048;
/// Time after which the kernel hands over a block that is not full, in milliseconds.
const HAND_OVER_MS: u32 = 4;
/// Distance from the beginning of a packet's header (`struct tpacket3_hdr`, 16-byte aligned) to its
/// `struct sockaddr_ll`, in bytes.
const ADDRESS: usize = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);

/// Offsets of the fields of a block (`struct tpacket_block_desc`).
mod block {
    pub const STATUS: usize = 8;
    pub const PACKETS: usize = 12;
    pub const FIRST: usize = 16;
    /// Number of bytes of the descriptor that are read.
    pub const LENGTH: usize = 48;
}

/// A ring of blocks shared with the kernel (`TPACKET_V3`): the kernel writes packets into one block after another, and
/// hands each block over when it is full or [`HAND_OVER_MS`] old.
///
/// Invariants: the mapping has `blocks` blocks of [`BLOCK`] bytes and lives as long as the ring. A block belongs to the
/// program from the moment that its status has `TP_STATUS_USER`, read with acquire, until the program writes
/// `TP_STATUS_KERNEL` with release. It is read only during that time, and nothing else of the mapping is ever read or
/// written. No offset in a block is trusted: the parts of a packet are taken from the block by checked ranges.
pub(crate) struct Ring {
    memory: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone, and nothing of it is bound to a thread.
unsafe impl Send for Ring {}

/// A captured packet in a [`Ring`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPacket<'a> {
    /// Captured part of the packet, from its beginning.
    pub data: &'a [u8],
    /// Length on the wire, in bytes.
    pub length: u32,
    /// Kernel's timestamp: seconds and nanoseconds.
    pub time: (u32, u32),
    /// Status flags, `TP_STATUS_…`.
    pub status: u32,
    /// VLAN tag, and tag protocol.
    pub tag: (u16, u16),
    /// EtherType in host order (`ETH_P_…`), and packet type (`PACKET_…`).
    pub link: (u16, u8),
}

impl Ring {
    /// Makes a packet socket deliver packets into a ring of at most `bytes` bytes. The socket must not be
    /// bound yet.
    pub fn of(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<Ring> {
        const VERSION: libc::c_int = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        packet_option(socket, libc::PACKET_VERSION, &VERSION)?;
        let blocks = (bytes / BLOCK).max(4);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (blocks * (BLOCK / FRAME)) as u32,
            tp_retire_blk_tov: HAND_OVER_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        packet_option(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new mapping of the ring just made, of exactly its size, at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                blocks * BLOCK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Ring { memory, blocks, next: 0 })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: `next` < `blocks`, so the word lies in the mapping; blocks are aligned to pages, and the word to 8 bytes. The
        // kernel changes it at any time, which an atomic allows.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(self.next * BLOCK + block::STATUS).cast()) }
    }

    /// Returns the next block if the kernel has handed it over. Dropping the block returns it to the kernel.
    pub fn block(&mut self) -> Option<RingBlock<'_>> {
        let handed_over = self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0;
        // Not `then_some`: it would always create the block, and dropping the block would return it to the
        // kernel.
        handed_over.then(|| RingBlock { ring: self })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `of`, of the same length; nothing borrows from it any longer.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

/// A block that the kernel has handed over.
pub(crate) struct RingBlock<'a> {
    ring: &'a mut Ring,
}

impl RingBlock<'_> {
    /// Iterates over the packets of the block, in the order in which the kernel wrote them.
    pub fn packets(&self) -> RingPackets<'_> {
        // SAFETY: the block lies in the mapping, is the program's until it is dropped, and the kernel does not write to it
        // meanwhile.
        let bytes =
            unsafe { slice::from_raw_parts(self.ring.memory.as_ptr().add(self.ring.next * BLOCK), BLOCK) };
        let head = &bytes[..block::LENGTH];
        let first = word(head, block::FIRST).unwrap_or(0) as usize;
        RingPackets { bytes, at: first, left: word(head, block::PACKETS).unwrap_or(0) }
    }
}

impl Drop for RingBlock<'_> {
    fn drop(&mut self) {
        self.ring.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.ring.next = (self.ring.next + 1) % self.ring.blocks;
    }
}

/// Iterator over the packets of a [`RingBlock`].
pub(crate) struct RingPackets<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> Iterator for RingPackets<'a> {
    type Item = RingPacket<'a>;

    fn next(&mut self) -> Option<RingPacket<'a>> {
        self.left = self.left.checked_sub(1)?;
        let head = self.bytes.get(self.at..)?;
        let packet = packet(head);
        match word(head, 0)? {
            // Zero marks the last packet of a block.
            0 => self.left = 0,
            next => self.at = self.at.checked_add(next as usize)?,
        }
        packet
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

/// Parses the packet whose `struct tpacket3_hdr` is at the beginning of `head`: offset of the next packet, seconds,
/// nanoseconds, captured length, length, status (32 bits each), offsets of the packet (16) and its network header, hash
/// (32), tag (32), tag protocol (16).
fn packet(head: &[u8]) -> Option<RingPacket<'_>> {
    let (kept, start) = (word(head, 12)? as usize, usize::from(half(head, 24)?));
    Some(RingPacket {
        data: head.get(start..start.checked_add(kept)?)?,
        length: word(head, 16)?,
        time: (word(head, 4)?, word(head, 8)?),
        status: word(head, 20)?,
        tag: (word(head, 32)? as u16, half(head, 36)?),
        link: (u16::from_be(half(head, ADDRESS + 2)?), *head.get(ADDRESS + 10)?),
    })
}

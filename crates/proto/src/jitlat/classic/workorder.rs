//! Workorder and singleton, byte for byte (sections 4.3.2, 4.4 and A.2 of DRDC TM 2011-047).

use core::net::Ipv4Addr;
use jitlat_core::{Flags, PacketRecord, WallTime};

/// Length of a workorder, in bytes.
pub const WORKORDER_LEN: usize = 44;
/// Length of a singleton, in bytes.
pub(crate) const SINGLETON_LEN: usize = 24;

/// Command in a workorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WorkorderCommand {
    /// Client: requests a stream from the server.
    SendMe = 1,
    /// Client: announces a stream that it will send. Server: announces the stream that the client requested.
    Sending = 2,
    /// Unused.
    Sent = 3,
    /// Server: `npkts` singletons follow.
    Samples = 4,
    /// The stream was agreed on, or has been received.
    Ack = 5,
    /// Refused, or failed.
    Nak = 6,
    /// Clock probe.
    RttProbe = 7,
}

impl WorkorderCommand {
    const ALL: [WorkorderCommand; 7] = [
        WorkorderCommand::SendMe,
        WorkorderCommand::Sending,
        WorkorderCommand::Sent,
        WorkorderCommand::Samples,
        WorkorderCommand::Ack,
        WorkorderCommand::Nak,
        WorkorderCommand::RttProbe,
    ];

    /// Returns the command with this number; `None` if it does not exist.
    pub fn from_number(number: u32) -> Option<WorkorderCommand> {
        WorkorderCommand::ALL.into_iter().find(|c| *c as u32 == number)
    }
}

/// Workorder, the only message of the classic control protocol. Its values are those on the wire and are not
/// checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workorder {
    /// Command.
    pub command: WorkorderCommand,
    /// Number of packets, or of singletons that follow.
    pub npkts: u32,
    /// Payload length in bytes. RTT_PROBE: the high half of T1.
    pub pktlen: u32,
    /// IP protocol, 17 or 6. RTT_PROBE: the low half of T1.
    pub proto: u32,
    /// Time between packets, in ns. RTT_PROBE: T2.
    pub period: u64,
    /// Address of the sender.
    pub src_ip: Ipv4Addr,
    /// Address of the receiver.
    pub dst_ip: Ipv4Addr,
    /// Port of the sender.
    pub src_port: u32,
    /// Port of the receiver.
    pub dst_port: u32,
    /// DSCP.
    pub dscp: u32,
}

/// Fields of a workorder.
mod order {
    use crate::wire::Field;
    pub(crate) const COMMAND: Field<u32> = Field::at(0);
    pub(crate) const NPKTS: Field<u32> = COMMAND.then();
    pub(crate) const PKTLEN: Field<u32> = NPKTS.then();
    pub(crate) const PROTO: Field<u32> = PKTLEN.then();
    pub const PERIOD: Field<u64> = PROTO.then();
    pub(crate) const SRC_IP: Field<[u8; 4]> = PERIOD.then();
    pub(crate) const DST_IP: Field<[u8; 4]> = SRC_IP.then();
    pub(crate) const SRC_PORT: Field<u32> = DST_IP.then();
    pub(crate) const DST_PORT: Field<u32> = SRC_PORT.then();
    pub const DSCP: Field<u32> = DST_PORT.then();
}

/// Fields of a singleton.
mod record_field {
    use crate::wire::Field;
    pub const SENT: Field<i64> = Field::at(0);
    pub(crate) const SEQ: Field<i32> = SENT.then();
    pub(crate) const ARRIVED: Field<i64> = SEQ.then();
    pub const FLAGS: Field<i32> = ARRIVED.then();
}

impl Workorder {
    /// Creates a workorder that has no values except its command.
    pub fn new(command: WorkorderCommand) -> Workorder {
        Workorder {
            command,
            npkts: 0,
            pktlen: 0,
            proto: 0,
            period: 0,
            src_ip: Ipv4Addr::UNSPECIFIED,
            dst_ip: Ipv4Addr::UNSPECIFIED,
            src_port: 0,
            dst_port: 0,
            dscp: 0,
        }
    }

    /// Parses a workorder. The error is an unknown command number.
    pub fn parse(bytes: &[u8; WORKORDER_LEN]) -> Result<Workorder, u32> {
        let number = order::COMMAND.read(bytes).unwrap_or(0);
        let command = WorkorderCommand::from_number(number).ok_or(number)?;
        let read = || {
            Some(Workorder {
                command,
                npkts: order::NPKTS.read(bytes)?,
                pktlen: order::PKTLEN.read(bytes)?,
                proto: order::PROTO.read(bytes)?,
                period: order::PERIOD.read(bytes)?,
                src_ip: order::SRC_IP.read(bytes)?.into(),
                dst_ip: order::DST_IP.read(bytes)?.into(),
                src_port: order::SRC_PORT.read(bytes)?,
                dst_port: order::DST_PORT.read(bytes)?,
                dscp: order::DSCP.read(bytes)?,
            })
        };
        read().ok_or(number)
    }

    /// Encodes the workorder.
    pub fn to_bytes(&self) -> [u8; WORKORDER_LEN] {
        let mut bytes = [0; WORKORDER_LEN];
        order::COMMAND.write(&mut bytes, self.command as u32);
        order::NPKTS.write(&mut bytes, self.npkts);
        order::PKTLEN.write(&mut bytes, self.pktlen);
        order::PROTO.write(&mut bytes, self.proto);
        order::PERIOD.write(&mut bytes, self.period);
        order::SRC_IP.write(&mut bytes, self.src_ip.octets());
        order::DST_IP.write(&mut bytes, self.dst_ip.octets());
        order::SRC_PORT.write(&mut bytes, self.src_port);
        order::DST_PORT.write(&mut bytes, self.dst_port);
        order::DSCP.write(&mut bytes, self.dscp);
        bytes
    }

    /// Returns T1 of an RTT_PROBE: the client's time, stored in `pktlen` and `proto`.
    pub fn t1(&self) -> WallTime {
        WallTime((u64::from(self.pktlen) << 32 | u64::from(self.proto)) as i64)
    }

    /// Sets [`t1`](Workorder::t1).
    pub(crate) fn set_t1(&mut self, at: WallTime) {
        self.pktlen = (at.0 as u64 >> 32) as u32;
        self.proto = at.0 as u32;
    }

    /// Returns T2 of an RTT_PROBE: the server's time, stored in `period`.
    pub fn t2(&self) -> WallTime {
        WallTime(self.period as i64)
    }

    /// Sets [`t2`](Workorder::t2).
    pub(crate) fn set_t2(&mut self, at: WallTime) {
        self.period = at.0 as u64;
    }
}

/// Encodes a record as a singleton. A missing time would be written as zero, but received packets have all
/// times.
pub fn singleton(record: &PacketRecord) -> [u8; SINGLETON_LEN] {
    let time = |t: Option<WallTime>| t.map_or(0, |t| t.0);
    let mut bytes = [0; SINGLETON_LEN];
    record_field::SENT.write(&mut bytes, time(record.sent()));
    record_field::SEQ.write(&mut bytes, record.seq as i32);
    record_field::ARRIVED.write(&mut bytes, time(record.arrived()));
    record_field::FLAGS.write(&mut bytes, record.flags.0.into());
    bytes
}

/// Parses the record in a singleton.
pub(crate) fn parse_singleton(bytes: &[u8; SINGLETON_LEN]) -> PacketRecord {
    let read = || {
        let (sent, arrived) = (record_field::SENT.read(bytes)?, record_field::ARRIVED.read(bytes)?);
        let seq = record_field::SEQ.read(bytes)?;
        let mut record = PacketRecord::one_way(seq.into(), WallTime(sent), WallTime(arrived));
        record.flags = Flags::from_classic(record_field::FLAGS.read(bytes)?);
        Some(record)
    };
    read().unwrap_or_else(|| PacketRecord::new(-1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Worked example in docs/protocols/jitlat-classic.md.
    const SENDING: [u8; WORKORDER_LEN] = [
        0x00, 0x00, 0x00, 0x02, // command SENDING
        0x00, 0x00, 0x03, 0xe8, // npkts 1000
        0x00, 0x00, 0x00, 0x50, // pktlen 80
        0x00, 0x00, 0x00, 0x11, // proto 17
        0x00, 0x00, 0x00, 0x00, 0x01, 0x31, 0x2d, 0x00, // period 20 000 000
        0x8e, 0x5c, 0x22, 0x65, // src_ip 142.92.34.101
        0x8e, 0x5c, 0x22, 0x65, // dst_ip 142.92.34.101
        0x00, 0x00, 0x81, 0x4d, // src_port 33101
        0x00, 0x00, 0x0a, 0x6b, // dst_port 2667
        0x00, 0x00, 0x00, 0x00, // dscp 0
    ];

    fn sending() -> Workorder {
        let host = Ipv4Addr::new(142, 92, 34, 101);
        Workorder {
            npkts: 1000,
            pktlen: 80,
            proto: 17,
            period: 20_000_000,
            src_ip: host,
            dst_ip: host,
            src_port: 33101,
            dst_port: 2667,
            ..Workorder::new(WorkorderCommand::Sending)
        }
    }

    #[test]
    fn deconstruct_and_construct() {
        assert_eq!(Workorder::parse(&SENDING), Ok(sending()));
        assert_eq!(sending().to_bytes(), SENDING);
        let mut wrong = SENDING;
        wrong[3] = 8;
        assert_eq!(Workorder::parse(&wrong), Err(8));
    }

    #[test]
    fn a_probe_writes_over_pktlen_proto_and_period() {
        let mut probe = Workorder::new(WorkorderCommand::RttProbe);
        probe.set_t1(WallTime(0x0102_0304_0506_0708));
        probe.set_t2(WallTime(-2));
        let bytes = probe.to_bytes();
        assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[16..24], (-2i64).to_be_bytes());
        assert_eq!((probe.t1(), probe.t2()), (WallTime(0x0102_0304_0506_0708), WallTime(-2)));
    }

    #[test]
    fn a_singleton_is_the_seeds_structure() {
        let mut record = PacketRecord::one_way(
            2,
            WallTime(1_246_650_331_463_856_200),
            WallTime(1_246_650_331_464_150_000),
        );
        record.flags = Flags(1);
        let bytes = singleton(&record);
        let want = [
            0x11, 0x4c, 0xfd, 0xdf, 0x16, 0x06, 0xb0, 0x48, 0, 0, 0, 2, 0x11, 0x4c, 0xfd, 0xdf, 0x16, 0x0b,
            0x2b, 0xf0, 0, 0, 0, 1,
        ];
        assert_eq!(bytes, want);
        assert_eq!(parse_singleton(&bytes), record);
    }

    #[test]
    fn the_page_shows_the_worked_examples() {
        let page = include_str!("../../../../../docs/protocols/jitlat-classic.md");
        let block =
            page.split("### Worked example").nth(1).and_then(|rest| rest.split("```").nth(1)).unwrap();
        let shown: String = block.lines().map(|line| line.split("  ").next().unwrap_or_default()).collect();
        let hex: String = SENDING.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(shown, hex);
        assert!(page.contains("`114cfddf130db490 00000000`"), "packet::tests has the same bytes");
        assert!(page.contains("`114cfddf1606b048 00000002 114cfddf160b2bf0 00000001`"), "as above");
    }

    proptest! {
        #[test]
        fn parse_and_construct_are_inverse(mut bytes: [u8; WORKORDER_LEN], command in 1u8..=7) {
            bytes[..4].copy_from_slice(&[0, 0, 0, command]);
            let parsed = Workorder::parse(&bytes).unwrap();
            prop_assert_eq!(parsed.to_bytes(), bytes);
        }

        #[test]
        fn singletons_are_inverse_but_for_foreign_flags(mut bytes: [u8; SINGLETON_LEN]) {
            bytes[20..22].fill(0);
            bytes[22] &= 0x7f;
            // A record represents a missing time by this value, which is in the year 1677.
            prop_assume!(bytes[0..8] != i64::MIN.to_be_bytes() && bytes[12..20] != i64::MIN.to_be_bytes());
            prop_assert_eq!(singleton(&parse_singleton(&bytes)), bytes);
        }
    }
}

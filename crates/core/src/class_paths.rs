//! [`ClassPaths`]: the paths of several traffic classes to one host, and where they differ.

use crate::path::{Hop, Path};
use serde::Serialize;

/// The paths of several traffic classes between the same hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassPaths {
    /// Path of each class, in the order in which the classes were given.
    pub paths: Vec<Path>,
    /// Differences of each class from the first.
    pub differences: Vec<PathDifference>,
}

/// Differences between the path of one class and that of the first class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathDifference {
    /// DSCP of the class.
    pub dscp: u8,
    /// Hops at which routers answered both classes, but no router answered both.
    pub routers: Vec<u8>,
    /// Hops at which a router answered both classes, but the quoted MPLS labels differ.
    pub labels: Vec<u8>,
    /// Number of hops at which at least one router answered each of the two classes.
    pub compared: u64,
}

impl ClassPaths {
    /// Compares each of `paths` with the first one.
    pub fn new(paths: Vec<Path>) -> ClassPaths {
        let differences = match &paths[..] {
            [first, others @ ..] => others.iter().map(|other| difference(first, other)).collect(),
            [] => Vec::new(),
        };
        ClassPaths { paths, differences }
    }

    /// Returns the number of hops of the longest path; 0 without paths.
    pub fn hops(&self) -> u8 {
        self.paths.iter().flat_map(|path| &path.hops).map(|hop| hop.ttl).max().unwrap_or(0)
    }
}

fn difference(first: &Path, other: &Path) -> PathDifference {
    let mut found = PathDifference { dscp: other.dscp, routers: Vec::new(), labels: Vec::new(), compared: 0 };
    for (a, b) in first.hops.iter().zip(&other.hops) {
        if a.responders.is_empty() || b.responders.is_empty() {
            continue;
        }
        found.compared += 1;
        let shared = a.responders.iter().any(|r| b.responders.iter().any(|other| other.address == r.address));
        let labels = |hop: &Hop| hop.labels.iter().map(|label| label.label).collect::<Vec<_>>();
        match shared {
            false => found.routers.push(a.ttl),
            true if labels(a) != labels(b) => found.labels.push(a.ttl),
            true => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{HopReplies, Label, PathEnd, ProbeReply};
    use crate::spec::{Dscp, Transport};
    use crate::time::Span;

    /// A path whose hops are the routers 192.0.2.N, each with an MPLS label or 0; router 0 does not answer.
    fn path(dscp: u8, hops: &[(u8, u32)]) -> Path {
        let ends = [[192, 0, 2, 100].into(), [192, 0, 2, 9].into()];
        let hop = |(last, label): &(u8, u32)| {
            let label = Label { label: *label, traffic_class: 0, bottom: true, ttl: 1 };
            let reply = ProbeReply {
                from: [192, 0, 2, *last].into(),
                flow: 1,
                rtt: Span::millis(1),
                traffic_class: None,
                labels: if label.label > 0 { vec![label] } else { vec![] },
                end: (*last == 9).then_some(PathEnd::Destination),
                reported_by: None,
            };
            let mut replies = HopReplies::default();
            replies.count_probe();
            if *last > 0 {
                replies.add(&reply);
            }
            replies
        };
        let replies: Vec<HopReplies> = hops.iter().map(hop).collect();
        Path::new(ends, (Transport::Udp, 33_434, Dscp::new(dscp.into()).unwrap()), &replies)
    }

    #[test]
    fn classes_differ_where_routers_or_labels_do_and_silence_is_no_difference() {
        let paths = vec![
            path(0, &[(1, 0), (2, 17), (3, 0), (9, 0)]),
            path(46, &[(1, 0), (2, 16), (3, 0), (9, 0)]),
            path(8, &[(1, 0), (0, 0), (4, 0), (5, 0), (9, 0)]),
        ];
        let found = ClassPaths::new(paths);
        let difference = |k: usize| {
            let PathDifference { dscp, routers, labels, compared } = &found.differences[k];
            (*dscp, &routers[..], &labels[..], *compared)
        };
        assert_eq!(difference(0), (46, &[][..], &[2][..], 4));
        assert_eq!(difference(1), (8, &[3, 4][..], &[][..], 3));
        assert_eq!((found.differences.len(), found.hops()), (2, 5));
        assert!(ClassPaths::new(Vec::new()).differences.is_empty());
    }
}

//! [`KnownRoute`]: recognises a change of a route, although some routers answer no probes and packets may take several
//! routes.

/// Routers of a route, in order: the addresses that answered at each hop; empty for a hop at which none did.
pub type Hops = Vec<Vec<String>>;

/// Route with all hops and addresses that were seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownRoute {
    hops: Hops,
    /// True if the far end answered, so that the route is known to its end.
    reached: bool,
}

/// Maximum number of addresses of a hop.
const MAX_ADDRESSES: usize = 8;

impl KnownRoute {
    /// Creates a route from the addresses that answered at each hop; `reached` if the far end did.
    pub fn new(mut hops: Hops, reached: bool) -> KnownRoute {
        for hop in &mut hops {
            hop.sort_unstable();
            hop.dedup();
            hop.truncate(MAX_ADDRESSES);
        }
        while hops.last().is_some_and(Vec::is_empty) {
            hops.pop();
        }
        KnownRoute { hops, reached }
    }

    /// Parses hops as returned by [`KnownRoute::text`]. The far end is assumed to have answered.
    pub fn of_text(hops: &[String]) -> KnownRoute {
        let hop = |text: &String| match text.as_str() {
            NOBODY => Vec::new(),
            text => text.split(',').map(str::to_owned).collect(),
        };
        KnownRoute::new(hops.iter().map(hop).collect(), true)
    }

    /// Returns the addresses of each hop, separated by commas; `*` for a hop at which no router
    /// answered.
    pub fn text(&self) -> Vec<String> {
        let hop = |hop: &Vec<String>| if hop.is_empty() { NOBODY.to_owned() } else { hop.join(",") };
        self.hops.iter().map(hop).collect()
    }

    /// Returns the TTL of the first hop at which `seen` differs; `None` if it may be the same route. A hop at which
    /// no router answered matches any hop; other hops match if they have an address in common. A route whose far end
    /// did not answer may continue after its last known hop.
    pub fn differs(&self, seen: &KnownRoute) -> Option<usize> {
        let differs = |(own, other): (&Vec<String>, &Vec<String>)| {
            !own.is_empty() && !other.is_empty() && !own.iter().any(|address| other.contains(address))
        };
        let first = self.hops.iter().zip(&seen.hops).position(differs);
        let (own, other) = (self.hops.len(), seen.hops.len());
        let is_cut = (own < other && self.reached) || (other < own && seen.reached);
        first.or(is_cut.then_some(own.min(other))).map(|hop| hop + 1)
    }

    /// Adds the addresses and hops of `seen`, another examination of the same route.
    pub fn learn(&mut self, seen: &KnownRoute) {
        for (hop, other) in seen.hops.iter().enumerate() {
            match self.hops.get_mut(hop) {
                Some(own) => {
                    own.extend(other.iter().cloned());
                    own.sort_unstable();
                    own.dedup();
                    own.truncate(MAX_ADDRESSES);
                }
                None => self.hops.push(other.clone()),
            }
        }
        self.reached |= seen.reached;
    }
}

/// Text of a hop at which no router answered.
const NOBODY: &str = "*";

/// Describes a change: `the route changed at hop 3: 192.0.2.1 instead of 192.0.2.9`.
pub fn change(before: &[String], now: &[String]) -> String {
    let (old, new) = (KnownRoute::of_text(before), KnownRoute::of_text(now));
    let hop = old.differs(&new).unwrap_or(1);
    let at = |hops: &[String]| hops.get(hop - 1).cloned().unwrap_or_else(|| "no router".to_owned());
    format!("the route changed at hop {hop}: {} instead of {}", at(now), at(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str, reached: bool) -> KnownRoute {
        let hops: Vec<String> = text.split(' ').map(str::to_owned).collect();
        KnownRoute { reached, ..KnownRoute::of_text(&hops) }
    }

    #[test]
    fn only_another_router_is_a_change() {
        let mut known = route("a b c d", true);
        for (same, reached) in
            [("a b c d", true), ("a * c d", true), ("a b", false), ("a b,x c d", true), ("a b *", false)]
        {
            assert_eq!(known.differs(&route(same, reached)), None, "{same}");
        }
        for (other, hop) in [("a x c d", 2), ("a b d", 3), ("a b c", 4), ("a b c x d", 4)] {
            assert_eq!(known.differs(&route(other, true)), Some(hop), "{other}");
        }
        // If packets take two routes, the route has not changed, and both are known from then on.
        known.learn(&route("a x,b c d", true));
        assert_eq!(known.differs(&route("a x c d", true)), None);
        assert_eq!(known.text(), ["a", "b,x", "c", "d"]);
        let texts = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let said = change(&texts("a b c"), &texts("a x c"));
        assert_eq!(said, "the route changed at hop 2: x instead of b");
        assert_eq!(
            change(&texts("a b"), &texts("a b c")),
            "the route changed at hop 3: c instead of no router"
        );
    }
}

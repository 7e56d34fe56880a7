//! [`Keys`]: the keys of a service, by the names of its peers.

/// The keys of a service, each with the name of the peer that has it. Without any, no key is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys<K>(Vec<(String, K)>);

impl<K> Keys<K> {
    /// The name of a key that is not one peer's.
    pub const ANY: &str = "any";

    /// Adds the key of the peer `name`.
    pub fn add(&mut self, name: impl Into<String>, key: K) {
        self.0.push((name.into(), key));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The names of the peers, in the order of their keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The first key that `proves` accepts, with the name of its peer.
    pub(crate) fn find(&self, proves: impl Fn(&K) -> bool) -> Option<&(String, K)> {
        self.position(proves).and_then(|place| self.0.get(place))
    }

    /// The place of the first key that `proves` accepts, for [`get`](Keys::get).
    pub(crate) fn position(&self, proves: impl Fn(&K) -> bool) -> Option<usize> {
        self.0.iter().position(|(_, key)| proves(key))
    }

    /// The key at this place, with the name of its peer.
    pub(crate) fn get(&self, place: usize) -> Option<&(String, K)> {
        self.0.get(place)
    }
}

impl<K> Default for Keys<K> {
    fn default() -> Keys<K> {
        Keys(Vec::new())
    }
}

impl<K> From<Option<K>> for Keys<K> {
    /// One key of all peers, or none.
    fn from(key: Option<K>) -> Keys<K> {
        Keys(key.into_iter().map(|key| (Keys::<K>::ANY.to_owned(), key)).collect())
    }
}

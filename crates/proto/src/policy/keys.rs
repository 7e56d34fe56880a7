//! [`Keys`]: keys of a service, by peer.

/// Keys of a service, each with the name of the peer that has it. If there are none, no key has to be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys<K>(Vec<(String, K)>);

impl<K> Keys<K> {
    /// Name of a key that all peers share.
    pub const ANY: &str = "any";

    /// Adds the key of the peer `name`.
    pub fn add(&mut self, name: impl Into<String>, key: K) {
        self.0.push((name.into(), key));
    }

    /// True if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the names of the peers, in the order of their keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the first key that `proves` accepts, with the name of its peer.
    pub(crate) fn find(&self, proves: impl Fn(&K) -> bool) -> Option<&(String, K)> {
        self.position(proves).and_then(|index| self.0.get(index))
    }

    /// Returns the index of the first key that `proves` accepts, for [`get`](Keys::get).
    pub(crate) fn position(&self, proves: impl Fn(&K) -> bool) -> Option<usize> {
        self.0.iter().position(|(_, key)| proves(key))
    }

    /// Returns the key at this index, with the name of its peer; `None` if there is no such key.
    pub(crate) fn get(&self, index: usize) -> Option<&(String, K)> {
        self.0.get(index)
    }
}

impl<K> Default for Keys<K> {
    fn default() -> Keys<K> {
        Keys(Vec::new())
    }
}

impl<K> From<Option<K>> for Keys<K> {
    /// Creates a list with one key for all peers, or an empty list.
    fn from(key: Option<K>) -> Keys<K> {
        Keys(key.into_iter().map(|key| (Keys::<K>::ANY.to_owned(), key)).collect())
    }
}

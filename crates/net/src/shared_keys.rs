//! [`SharedKeys`]: keys of a running server, which can be replaced.

use jitlat_proto::jitlat::{PresharedKey, PresharedKeys};
use std::sync::{Arc, PoisonError, RwLock};

/// Keys of a service. Clones share them: [`replace`](SharedKeys::replace) applies to every new connection, while
/// existing connections keep the keys with which they began.
#[derive(Clone, Debug, Default)]
pub struct SharedKeys(Arc<RwLock<PresharedKeys>>);

impl SharedKeys {
    /// Returns the keys for a new connection.
    pub fn current(&self) -> PresharedKeys {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keys.
    pub fn replace(&self, keys: PresharedKeys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// True if no key is required.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl From<PresharedKeys> for SharedKeys {
    fn from(keys: PresharedKeys) -> SharedKeys {
        SharedKeys(Arc::new(RwLock::new(keys)))
    }
}

impl From<Option<PresharedKey>> for SharedKeys {
    fn from(key: Option<PresharedKey>) -> SharedKeys {
        PresharedKeys::from(key).into()
    }
}

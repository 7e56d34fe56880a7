//! States of metrics as bytes.

use crate::msgpack;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Error: the state cannot be written.
pub(crate) use rmp_serde::encode::Error as SaveError;

/// A state that can be stored.
pub(crate) trait Stored {
    /// Returns the state as bytes.
    fn save(&self) -> Result<Vec<u8>, SaveError>;
    /// Replaces the state by that in `bytes`.
    fn load(&mut self, bytes: &[u8]) -> Result<(), msgpack::Error>;
}

impl<M: Serialize + DeserializeOwned> Stored for M {
    fn save(&self) -> Result<Vec<u8>, SaveError> {
        rmp_serde::to_vec_named(self)
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), msgpack::Error> {
        *self = msgpack::from_slice(bytes)?;
        Ok(())
    }
}

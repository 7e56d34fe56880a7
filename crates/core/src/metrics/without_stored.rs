//! Stand-in for `stored` in builds that neither save nor load analyses.

use crate::msgpack;
use rmp_serde::decode::Error as LoadError;

pub(crate) use rmp_serde::encode::Error as SaveError;

pub(crate) trait Stored {
    fn save(&self) -> Result<Vec<u8>, SaveError>;
    fn load(&mut self, bytes: &[u8]) -> Result<(), msgpack::Error>;
}

impl<M> Stored for M {
    fn save(&self) -> Result<Vec<u8>, SaveError> {
        Err(SaveError::Syntax("this build saves no states".to_owned()))
    }

    fn load(&mut self, _: &[u8]) -> Result<(), msgpack::Error> {
        Err(LoadError::Syntax("this build reads no states".to_owned()))
    }
}

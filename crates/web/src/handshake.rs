//! Parts of TLS handshakes that verifiers with their own rules about certificates share: signatures, and dates.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::CertificateDer;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Checks that the other side has the private key of its certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakeSignatures(WebPkiSupportedAlgorithms);

impl HandshakeSignatures {
    pub(crate) fn new() -> HandshakeSignatures {
        HandshakeSignatures(rustls::crypto::ring::default_provider().signature_verification_algorithms)
    }

    pub(crate) fn verify_tls12(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    pub(crate) fn verify_tls13(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    pub(crate) fn schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Fault of a certificate's dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrongDates {
    Expired,
    NotYetValid,
}

impl WrongDates {
    /// Returns the fault of the dates; `None` if `problem` is another one.
    pub(crate) fn of(problem: &CertificateError) -> Option<WrongDates> {
        match problem {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Some(WrongDates::Expired),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Some(WrongDates::NotYetValid)
            }
            _ => None,
        }
    }
}

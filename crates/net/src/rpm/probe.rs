//! Probes: requests for the small object, on a connection of their own or on a load-generating one.

use super::RpmError;
use super::connection::{Target, download, within};
use bytes::Bytes;
use h2::client::SendRequest;
use jitlat_core::SteadyTime;
use jitlat_proto::rpm::resources::WebUrl;
use jitlat_proto::rpm::score::ForeignTimes;
use jitlat_proto::rpm::stage::{AnsweredProbe, ProbeTimes};
use std::time::Duration;

/// Maximum time of a probe.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// Maximum size of the small object, in bytes; it should have one byte.
const MAX_SMALL: usize = 4096;

/// Sends a foreign probe, which began at `began`.
pub(super) async fn foreign(
    target: &Target,
    small: &WebUrl,
    began: SteadyTime,
) -> Result<AnsweredProbe, RpmError> {
    within("a probe", PROBE_LIMIT, async {
        let connection = target.connect().await?;
        let got = download(connection.sender, small, MAX_SMALL).await?;
        let (tcp, tls) = (connection.tcp, Some(connection.tls));
        let times = ProbeTimes::Foreign(ForeignTimes { tcp, tls, http: got.ended - got.began });
        Ok(AnsweredProbe { began, ended: got.ended, times })
    })
    .await
}

/// Sends a self probe on the connection of `sender`.
pub(super) async fn own(sender: SendRequest<Bytes>, small: &WebUrl) -> Result<AnsweredProbe, RpmError> {
    within("a probe", PROBE_LIMIT, async {
        let got = download(sender, small, MAX_SMALL).await?;
        let times = ProbeTimes::Own(got.ended - got.began);
        Ok(AnsweredProbe { began: got.began, ended: got.ended, times })
    })
    .await
}

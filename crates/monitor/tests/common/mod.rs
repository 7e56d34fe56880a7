//! Test instruments whose traffic is defined by their options.
#![allow(dead_code, reason = "each test binary uses a part")]

use jitlat_core::quantity;
use jitlat_core::time::{SECOND, Span};
use jitlat_monitor::Model;
use jitlat_monitor::file::{DeclaredCapture, DeclaredTest, EntryError, Instruments, OptionValue, read};
use jitlat_monitor::model::{OneWayTraffic, SendingHosts, Traffic};

pub struct Simple;

impl Instruments for Simple {
    fn names(&self) -> Vec<&'static str> {
        vec!["one-way", "ping"]
    }

    fn ping(&self) -> &'static str {
        "ping"
    }

    /// Returns 50 packets of 126 bytes per second, or the rate of the option `rate` in bit/s.
    fn traffic(&self, asked: &DeclaredTest<'_>) -> Result<Traffic, EntryError> {
        let duration = asked.duration.unwrap_or(Span::seconds(20));
        let mut rate = 50_400;
        for (name, value) in asked.options {
            match (name.as_str(), value) {
                ("rate", OptionValue::Text(text)) => rate = quantity::bit_rate(text).unwrap(),
                _ => {
                    let message = format!("there is no option --{name}");
                    return Err(EntryError { key: Some(name.clone()), message });
                }
            }
        }
        let bytes = (rate as i128 / 8 * i128::from(duration.0) / i128::from(SECOND)) as u64;
        let flow = OneWayTraffic { packets: bytes / 126, bytes, rate };
        let (forward, backward) = match asked.direction {
            SendingHosts::Both => (flow, flow),
            SendingHosts::Forward => (flow, OneWayTraffic::default()),
            SendingHosts::Backward => (OneWayTraffic::default(), flow),
        };
        Ok(Traffic { duration, forward, backward, recorded: forward.packets + backward.packets })
    }

    fn captures(&self) -> Vec<(&'static str, bool)> {
        vec![("spp", true), ("tcp", false)]
    }

    fn capture(&self, asked: &DeclaredCapture<'_>) -> Result<(), EntryError> {
        match asked.options.iter().find(|(name, _)| name != "only") {
            Some((name, _)) => Err(EntryError { key: Some(name.clone()), message: format!("no --{name}") }),
            None => Ok(()),
        }
    }

    fn has_https(&self) -> bool {
        true
    }

    fn serve(&self, options: &[(String, OptionValue)]) -> Result<(), EntryError> {
        match options.iter().find(|(name, _)| name != "control-port") {
            Some((name, _)) => Err(EntryError { key: Some(name.clone()), message: format!("no --{name}") }),
            None => Ok(()),
        }
    }
}

/// Returns the model of a file without faults.
pub fn model(text: &str) -> Model {
    read(text, &Simple).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"))
}

/// Returns `n` hosts with the same limits, as sections of a file.
pub fn hosts(n: usize, limits: &str) -> String {
    (0..n)
        .map(|k| format!("[[host]]\nname = \"h{k}\"\naddress = \"10.0.{}.{}\"\n{limits}\n", k / 256, k % 256))
        .collect()
}

//! Sentences about quantities of an interface that change together with loss or delay.

use super::numbers::{percent, time};
use jitlat_core::answer::{Coincidence, PacketEffect};
use jitlat_core::interface::InterfaceQuantity;

/// Name of a quantity in sentences.
fn name(quantity: InterfaceQuantity) -> &'static str {
    match quantity {
        InterfaceQuantity::Retries => "retries",
        InterfaceQuantity::Failed => "frames given up",
        InterfaceQuantity::Signal => "a weaker signal",
        InterfaceQuantity::TxRate => "a lower send rate",
        InterfaceQuantity::RxRate => "a lower receive rate",
        InterfaceQuantity::Errors => "errors",
        InterfaceQuantity::Drops => "drops",
    }
}

/// Describes the coincidences with one effect, for the cause of this effect: `loss coincides with retries on wlan0 (6.1 % in
/// the quarter of the time with the worst values, 0.30 % otherwise)`. The values are those of the first of `all`. Empty without any.
pub fn coincides(all: &[&Coincidence]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let (effect, value): (_, fn(f64) -> String) = match first.effect {
        PacketEffect::Loss => ("loss", percent),
        PacketEffect::Delay => ("delay", time),
    };
    let names: Vec<&str> = all.iter().map(|coincidence| name(coincidence.quantity)).collect();
    let subjects = match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    };
    format!(
        "{effect} coincides with {subjects} on {} ({} in the quarter of the time with the worst values, {} otherwise)",
        first.interface,
        value(first.worst_quarter),
        value(first.others)
    )
}

/// Describes the coincidences with one effect in a sentence.
pub fn finding(all: &[&Coincidence]) -> String {
    let text = coincides(all);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coincidences_are_named_and_the_first_is_measured() {
        let of = |effect, quantity, worst_quarter, others| Coincidence {
            effect,
            quantity,
            interface: "wlan0".to_owned(),
            interval_s: 1.0,
            intervals: 60,
            worst_quarter,
            others,
        };
        let loss = of(PacketEffect::Loss, InterfaceQuantity::Retries, 0.061, 0.003);
        let signal = Coincidence { quantity: InterfaceQuantity::Signal, ..loss.clone() };
        assert_eq!(
            finding(&[&loss, &signal]),
            "Loss coincides with retries and a weaker signal on wlan0 (6.1 % in the quarter of the time with the worst values, \
             0.30 % otherwise)."
        );
        let delay = of(PacketEffect::Delay, InterfaceQuantity::TxRate, 12e6, 3e6);
        assert_eq!(
            coincides(&[&delay]),
            "delay coincides with a lower send rate on wlan0 (12 ms in the quarter of the time with the worst values, 3.0 ms \
             otherwise)"
        );
        assert_eq!((coincides(&[]), finding(&[])), (String::new(), String::new()));
    }
}

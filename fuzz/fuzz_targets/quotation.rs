#![no_main]

use jitlat_proto::path::{Family, Quotation};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, message)) = data.split_first() else { return };
    let family = if first & 1 == 0 { Family::V4 } else { Family::V6 };
    if let Ok(quotation) = Quotation::parse(family, message) {
        assert!(quotation.labels.len() <= jitlat_proto::path::MAX_LABELS);
        assert!(quotation.labels.iter().all(|l| l.label < 1 << 20 && l.traffic_class < 8));
    }
});

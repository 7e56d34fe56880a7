//! Samples as messages of `io.prometheus.client` (client_model's metrics.proto), each after its length: the format in which native
//! histograms are scraped. Every histogram is classic and native, and a scraper takes what it knows.

use super::families::{Family, Kind, Value};
use super::histogram::Histogram;

/// All of `families`.
pub fn written(families: &[Family]) -> Vec<u8> {
    let mut out = Message(Vec::with_capacity(1 << 16));
    for family in families {
        let message = of_family(family);
        out.varint(message.0.len() as u64);
        out.0.extend_from_slice(&message.0);
    }
    out.0
}

/// Numbers of fields, by message.
mod field {
    pub mod family {
        pub const NAME: u32 = 1;
        pub const HELP: u32 = 2;
        pub const KIND: u32 = 3;
        pub const METRIC: u32 = 4;
    }
    pub mod metric {
        pub const LABEL: u32 = 1;
        pub const GAUGE: u32 = 2;
        pub const COUNTER: u32 = 3;
        pub const HISTOGRAM: u32 = 7;
    }
    pub mod label {
        pub const NAME: u32 = 1;
        pub const VALUE: u32 = 2;
    }
    /// Of gauges and of counters.
    pub const VALUE: u32 = 1;
    pub mod histogram {
        pub const COUNT: u32 = 1;
        pub const SUM: u32 = 2;
        pub const BUCKET: u32 = 3;
        pub const SCHEMA: u32 = 5;
        pub const ZERO_THRESHOLD: u32 = 6;
        pub const ZERO_COUNT: u32 = 7;
        pub const NEGATIVE_SPAN: u32 = 9;
        pub const NEGATIVE_DELTA: u32 = 10;
        pub const POSITIVE_SPAN: u32 = 12;
        pub const POSITIVE_DELTA: u32 = 13;
    }
    pub mod bucket {
        pub const CUMULATIVE_COUNT: u32 = 1;
        pub const UPPER_BOUND: u32 = 2;
    }
    pub mod span {
        pub const OFFSET: u32 = 1;
        pub const LENGTH: u32 = 2;
    }
}

fn of_family(family: &Family) -> Message {
    let mut out = Message::default();
    let (ending, kind) = match family.kind {
        Kind::Counter => ("_total", 0),
        Kind::Gauge => ("", 1),
        Kind::Histogram => ("", 4),
    };
    out.text(field::family::NAME, &[family.name, ending].concat());
    out.text(field::family::HELP, family.help);
    out.number(field::family::KIND, kind);
    for (labels, value) in &family.samples {
        let mut metric = Message::default();
        for (name, value) in labels.iter() {
            let mut label = Message::default();
            label.text(field::label::NAME, name);
            label.text(field::label::VALUE, value);
            metric.message(field::metric::LABEL, &label);
        }
        match value {
            Value::Number(value) => {
                let mut number = Message::default();
                number.double(field::VALUE, *value);
                let is_counter = family.kind == Kind::Counter;
                let field = if is_counter { field::metric::COUNTER } else { field::metric::GAUGE };
                metric.message(field, &number);
            }
            Value::Histogram(of) => metric.message(field::metric::HISTOGRAM, &histogram(of)),
        }
        out.message(field::family::METRIC, &metric);
    }
    out
}

fn histogram(of: &Histogram) -> Message {
    use field::histogram as own;
    let mut out = Message::default();
    out.number(own::COUNT, of.count);
    // A sum cannot be left out here: one that could become smaller is no number.
    out.double(own::SUM, of.sum.unwrap_or(f64::NAN));
    for (end, below) in of.classic.iter().copied().chain([(f64::INFINITY, of.count)]) {
        let mut bucket = Message::default();
        bucket.number(field::bucket::CUMULATIVE_COUNT, below);
        bucket.double(field::bucket::UPPER_BOUND, end);
        out.message(own::BUCKET, &bucket);
    }
    out.number(own::SCHEMA, zigzag(of.schema.into()));
    out.double(own::ZERO_THRESHOLD, of.zero_threshold);
    out.number(own::ZERO_COUNT, of.zero_count);
    buckets(&mut out, own::NEGATIVE_SPAN, own::NEGATIVE_DELTA, &of.negative);
    buckets(&mut out, own::POSITIVE_SPAN, own::POSITIVE_DELTA, &of.positive);
    if of.positive.is_empty() && of.negative.is_empty() {
        // Without a span that says so it would be no native histogram.
        span(&mut out, own::POSITIVE_SPAN, 0, 0);
    }
    out
}

/// Buckets in a row are a span, which begins so many after the end of the one before; counts are differences to the bucket before.
fn buckets(out: &mut Message, span_field: u32, delta_field: u32, all: &[(i32, u64)]) {
    let mut spans: Vec<(i32, u32)> = Vec::new();
    let mut next: Option<i32> = None;
    for (k, _) in all {
        match spans.last_mut().filter(|_| next == Some(*k)) {
            Some((_, length)) => *length += 1,
            None => spans.push((k - next.unwrap_or(0), 1)),
        }
        next = Some(k + 1);
    }
    for (offset, length) in spans {
        span(out, span_field, offset, length);
    }
    let mut before = 0i64;
    let mut deltas = Message::default();
    for (_, count) in all {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        deltas.varint(zigzag(count - before));
        before = count;
    }
    if !all.is_empty() {
        out.message(delta_field, &deltas);
    }
}

fn span(out: &mut Message, field: u32, offset: i32, length: u32) {
    let mut span = Message::default();
    span.number(field::span::OFFSET, zigzag(offset.into()));
    span.number(field::span::LENGTH, length.into());
    out.message(field, &span);
}

/// A signed number as one that is small where it is near zero.
fn zigzag(x: i64) -> u64 {
    ((x << 1) ^ (x >> 63)) as u64
}

/// The bytes of a message.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

/// How a field is written.
const VARINT: u32 = 0;
const EIGHT_BYTES: u32 = 1;
const LENGTH: u32 = 2;

impl Message {
    fn varint(&mut self, mut x: u64) {
        while x >= 0x80 {
            self.0.push(x as u8 | 0x80);
            x >>= 7;
        }
        self.0.push(x as u8);
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn number(&mut self, field: u32, x: u64) {
        self.tag(field, VARINT);
        self.varint(x);
    }

    fn double(&mut self, field: u32, x: f64) {
        self.tag(field, EIGHT_BYTES);
        self.0.extend_from_slice(&x.to_le_bytes());
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As protoc 3.21 encodes the same: a histogram of schema 3 with the buckets -2, -1 and 2, and zero.
    #[test]
    fn spans_and_deltas_are_those_of_client_model() {
        let of = Histogram {
            classic: vec![(1.0, 6)],
            count: 7,
            sum: Some(1.5),
            schema: 3,
            zero_threshold: 0.25,
            zero_count: 1,
            positive: vec![(-2, 3), (-1, 1), (2, 2)],
            negative: Vec::new(),
        };
        let text = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ");
        assert_eq!(
            text(&histogram(&of).0),
            "08 07 11 00 00 00 00 00 00 f8 3f 1a 0b 08 06 11 00 00 00 00 00 00 f0 3f 1a 0b 08 07 11 00 00 00 00 00 00 f0 7f \
             28 06 31 00 00 00 00 00 00 d0 3f 38 01 62 04 08 03 10 02 62 04 08 04 10 01 6a 03 06 03 02"
        );
        // One without values is native, too.
        let empty = histogram(&Histogram { schema: 5, ..Histogram::default() });
        assert!(text(&empty.0).ends_with("62 04 08 00 10 00"), "{}", text(&empty.0));
        assert_eq!([0, -1, 1, i64::MIN].map(zigzag), [0, 1, 2, u64::MAX]);
    }
}

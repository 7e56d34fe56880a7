//! Test packets in a TCP stream: records of a fixed length, regardless of how TCP segments them.

/// Splits a byte stream into records of a fixed length. Buffers at most one incomplete record.
#[derive(Clone, Debug)]
pub struct Framer {
    length: usize,
    partial: Vec<u8>,
}

impl Framer {
    /// Creates a framer for records of `length` bytes (at least one).
    pub fn new(length: usize) -> Framer {
        let length = length.max(1);
        Framer { length, partial: Vec::with_capacity(length) }
    }

    /// Adds the next bytes of the stream and calls `record` for every complete record, in order. Only records
    /// that span two calls are copied. Never allocates.
    pub fn push(&mut self, mut bytes: &[u8], mut record: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            let missing = self.length - self.partial.len();
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            self.partial.extend_from_slice(head);
            bytes = rest;
            if self.partial.len() < self.length {
                return;
            }
            record(&self.partial);
            self.partial.clear();
        }
        let mut whole = bytes.chunks_exact(self.length);
        whole.by_ref().for_each(&mut record);
        self.partial.extend_from_slice(whole.remainder());
    }

    /// Returns the number of bytes of the incomplete record.
    pub fn pending(&self) -> usize {
        self.partial.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn segmentation_does_not_matter(
            data in proptest::collection::vec(any::<u8>(), 0..400),
            length in 1usize..50,
            cuts in proptest::collection::vec(0usize..60, 0..40),
        ) {
            let mut framer = Framer::new(length);
            let mut got = Vec::new();
            let mut rest = &data[..];
            for cut in cuts.into_iter().chain([usize::MAX]) {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                framer.push(head, |r| got.push(r.to_vec()));
                rest = tail;
            }
            let want: Vec<Vec<u8>> = data.chunks_exact(length).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(got, want);
            prop_assert_eq!(framer.pending(), data.len() % length);
        }
    }
}

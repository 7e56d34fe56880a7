//! A read buffer that provides contiguous bytes and grows only as data arrives.

use std::io::{self, ErrorKind, Read};

/// Number of bytes read at a time: few enough to stay in the processor's cache while they are parsed.
const CHUNK_BYTES: usize = 1 << 18;

pub(super) struct ReadBuffer {
    inner: Box<dyn Read + Send>,
    data: Vec<u8>,
    from: usize,
    to: usize,
    /// Number of bytes consumed before `data[0]`.
    consumed: u64,
}

impl ReadBuffer {
    pub(super) fn new(inner: Box<dyn Read + Send>) -> ReadBuffer {
        ReadBuffer { inner, data: vec![0; CHUNK_BYTES], from: 0, to: 0, consumed: 0 }
    }

    /// Returns the position in the (decompressed) file, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.consumed + self.from as u64
    }

    /// Returns the number of bytes in the buffer.
    pub(super) fn available(&self) -> usize {
        self.to - self.from
    }

    /// Returns the next `n` bytes without consuming them; `None` if the file ends first.
    #[inline]
    pub(super) fn peek(&mut self, n: usize) -> io::Result<Option<&[u8]>> {
        if self.available() < n && !self.fill(n)? {
            return Ok(None);
        }
        Ok(Some(&self.data[self.from..self.from + n]))
    }

    /// Consumes `n` peeked bytes; returns their position in the buffer, valid until the next peek.
    #[inline]
    pub(super) fn take(&mut self, n: usize) -> usize {
        let at = self.from;
        self.from = (self.from + n).min(self.to);
        at
    }

    /// Returns `length` bytes of the last peek, beginning at `from`.
    pub(super) fn slice(&self, from: usize, length: usize) -> &[u8] {
        self.data.get(from..from + length).unwrap_or_default()
    }

    /// Skips `n` bytes; `false` if the file ends first.
    pub(super) fn skip(&mut self, mut n: u64) -> io::Result<bool> {
        loop {
            let here = (self.available() as u64).min(n);
            self.from += here as usize;
            n -= here;
            if n == 0 {
                return Ok(true);
            }
            if !self.fill(1)? {
                return Ok(false);
            }
        }
    }

    #[cold]
    fn fill(&mut self, n: usize) -> io::Result<bool> {
        self.data.copy_within(self.from..self.to, 0);
        self.consumed += self.from as u64;
        self.to -= self.from;
        self.from = 0;
        while self.to < n {
            if self.to == self.data.len() {
                self.data.resize(self.data.len() * 2, 0);
            }
            match self.inner.read(&mut self.data[self.to..]) {
                Ok(0) => return Ok(false),
                Ok(got) => self.to += got,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

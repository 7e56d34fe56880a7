//! AES-128 in CBC mode (NIST SP 800-38A §6.2): every block is combined with the encrypted block before it.

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Encrypts a stream of blocks.
pub(crate) struct Encryptor {
    cipher: Aes128,
    /// The encrypted block before, at first the initialization vector.
    previous: Block,
}

impl Encryptor {
    pub(crate) fn new(key: &[u8; 16], iv: &[u8; 16]) -> Encryptor {
        Encryptor { cipher: Aes128::new(&(*key).into()), previous: (*iv).into() }
    }

    pub(crate) fn encrypt_block(&mut self, block: &mut Block) {
        combine(block, &self.previous);
        self.cipher.encrypt_block(block);
        self.previous = *block;
    }

    pub(crate) fn encrypt_blocks(&mut self, blocks: &mut [Block]) {
        blocks.iter_mut().for_each(|block| self.encrypt_block(block));
    }
}

/// Decrypts a stream of blocks.
pub(crate) struct Decryptor {
    cipher: Aes128,
    /// The encrypted block before, at first the initialization vector.
    previous: Block,
}

impl Decryptor {
    pub(crate) fn new(key: &[u8; 16], iv: &[u8; 16]) -> Decryptor {
        Decryptor { cipher: Aes128::new(&(*key).into()), previous: (*iv).into() }
    }

    pub(crate) fn decrypt_blocks(&mut self, blocks: &mut [Block]) {
        for block in blocks {
            let encrypted = *block;
            self.cipher.decrypt_block(block);
            combine(block, &self.previous);
            self.previous = encrypted;
        }
    }
}

fn combine(block: &mut Block, with: &Block) {
    block.iter_mut().zip(with).for_each(|(byte, other)| *byte ^= other);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(digits: &str) -> [u8; N] {
        core::array::from_fn(|k| u8::from_str_radix(&digits[2 * k..2 * k + 2], 16).unwrap())
    }

    #[test]
    fn vectors_of_nist() {
        // SP 800-38A, F.2.1 and F.2.2.
        let key = bytes("2b7e151628aed2a6abf7158809cf4f3c");
        let iv = bytes("000102030405060708090a0b0c0d0e0f");
        let plain: [u8; 32] = bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        let mut text = plain;
        Encryptor::new(&key, &iv).encrypt_blocks(Block::slice_as_chunks_mut(&mut text).0);
        assert_eq!(text, bytes("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"));
        let mut decryptor = Decryptor::new(&key, &iv);
        for block in Block::slice_as_chunks_mut(&mut text).0 {
            decryptor.decrypt_blocks(core::slice::from_mut(block));
        }
        assert_eq!(text, plain);
    }
}

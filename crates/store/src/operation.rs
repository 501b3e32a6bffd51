//! The bytes of a batch: operations one after the other.
//!
//! ```text
//! put     1 | key length u16 | key | value length u32 | value
//! delete  2 | key length u16 | key
//! ```
//! Numbers are little-endian. A batch without operations is a barrier: it is committed when all before it are.

/// First byte of a put.
pub const PUT: u8 = 1;
/// First byte of a delete.
pub const DELETE: u8 = 2;

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// The key has this value from now on.
    Put {
        /// At most 65,535 bytes.
        key: &'a [u8],
        /// At most 4,294,967,295 bytes.
        value: &'a [u8],
    },
    /// The key has no value from now on.
    Delete {
        /// At most 65,535 bytes.
        key: &'a [u8],
    },
}

impl<'a> Operation<'a> {
    /// The key that the operation is about.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// The value of a put.
    pub fn value(&self) -> Option<&'a [u8]> {
        match self {
            Self::Put { value, .. } => Some(value),
            Self::Delete { .. } => None,
        }
    }
}

/// Why bytes are no batch, or an operation does not fit into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The key is too long.
    #[error("a key of {0} bytes is longer than 65535; shorten it")]
    KeyTooLong(usize),
    /// The value is too long.
    #[error("a value of {0} bytes is longer than 4294967295; split it")]
    ValueTooLong(usize),
    /// The bytes end within an operation, or one begins with neither 1 nor 2.
    #[error("the batch is not made of operations at byte {0}; encode it as `tidegate_store::operation` says")]
    Malformed(usize),
}

/// Appends a put to a batch.
///
/// # Errors
/// When the key or the value is too long; the batch is then as it was.
pub fn put(batch: &mut Vec<u8>, key: &[u8], value: &[u8]) -> Result<(), OperationError> {
    let key_length = u16::try_from(key.len()).map_err(|_| OperationError::KeyTooLong(key.len()))?;
    let value_length = u32::try_from(value.len()).map_err(|_| OperationError::ValueTooLong(value.len()))?;
    batch.reserve(7 + key.len() + value.len());
    batch.push(PUT);
    batch.extend_from_slice(&key_length.to_le_bytes());
    batch.extend_from_slice(key);
    batch.extend_from_slice(&value_length.to_le_bytes());
    batch.extend_from_slice(value);
    Ok(())
}

/// Appends a delete to a batch.
///
/// # Errors
/// When the key is too long; the batch is then as it was.
pub fn delete(batch: &mut Vec<u8>, key: &[u8]) -> Result<(), OperationError> {
    let key_length = u16::try_from(key.len()).map_err(|_| OperationError::KeyTooLong(key.len()))?;
    batch.push(DELETE);
    batch.extend_from_slice(&key_length.to_le_bytes());
    batch.extend_from_slice(key);
    Ok(())
}

/// The operations of a batch, in order. Iteration ends after the first error.
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Operations<'a> {
    /// The operations of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The offset of the next operation in the bytes.
    pub fn position(&self) -> usize {
        self.position
    }

    fn take(&mut self) -> Option<Operation<'a>> {
        let rest = self.bytes.get(self.position..)?;
        let (operation, length) = first(rest)?;
        self.position += length;
        Some(operation)
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>, OperationError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.position >= self.bytes.len() {
            return None;
        }
        let begin = self.position;
        let taken = self.take();
        if taken.is_none() {
            self.position = self.bytes.len();
        }
        Some(taken.ok_or(OperationError::Malformed(begin)))
    }
}

/// The operation at the beginning of some bytes and how many of them it takes.
pub(crate) fn first(bytes: &[u8]) -> Option<(Operation<'_>, usize)> {
    let (kind, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    match *kind {
        DELETE => Some((Operation::Delete { key }, 3 + key.len())),
        PUT => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            let value = rest.get(..u32::from_le_bytes(*length) as usize)?;
            Some((Operation::Put { key, value }, 7 + key.len() + value.len()))
        }
        _ => None,
    }
}

/// Counts the operations of a batch.
///
/// # Errors
/// When the payload is malformed.
pub fn count(batch: &[u8]) -> Result<u64, OperationError> {
    let mut found = 0;
    for operation in Operations::new(batch) {
        operation?;
        found += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_the_documented_ones() {
        let mut batch = Vec::new();
        put(&mut batch, b"k", b"vv").unwrap();
        delete(&mut batch, b"kk").unwrap();
        assert_eq!(batch, [1, 1, 0, b'k', 2, 0, 0, 0, b'v', b'v', 2, 2, 0, b'k', b'k']);
        let read: Vec<_> = Operations::new(&batch).map(Result::unwrap).collect();
        assert_eq!(read, [Operation::Put { key: b"k", value: b"vv" }, Operation::Delete { key: b"kk" }]);
    }

    #[test]
    fn every_cut_within_an_operation_is_found() {
        let mut batch = Vec::new();
        put(&mut batch, b"key", b"value").unwrap();
        for length in 1..batch.len() {
            assert_eq!(count(&batch[..length]), Err(OperationError::Malformed(0)));
        }
        assert_eq!(count(&batch), Ok(1));
        assert_eq!(count(&[3, 0, 0]), Err(OperationError::Malformed(0)));
    }

    #[test]
    fn a_key_that_is_too_long_leaves_the_batch_as_it_was() {
        let mut batch = vec![DELETE, 0, 0];
        assert_eq!(put(&mut batch, &vec![0; 65_536], b""), Err(OperationError::KeyTooLong(65_536)));
        assert_eq!(batch, [DELETE, 0, 0]);
    }
}

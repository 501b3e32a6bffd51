//! Memory for Argon2, straight from the system and given back to it when a hash is done.
//!
//! An allocator is the wrong place for it. Blocks are aligned to 64 bytes, and glibc (2.36 for one) does not use a freed
//! range again for the next aligned request of the same size: each hash left 19 MiB in its thread's arena, for good.

use std::io;

use argon2::Block;

/// Zeroed blocks in a mapping of their own.
#[derive(Debug)]
pub(super) struct Blocks {
    start: std::ptr::NonNull<Block>,
    count: usize,
}

#[expect(unsafe_code, reason = "an anonymous mapping has no safe wrapper that gives out typed memory")]
impl Blocks {
    /// Maps memory for this number of blocks, at least one.
    ///
    /// # Errors
    /// When the system has no memory.
    pub(super) fn map(count: usize) -> io::Result<Self> {
        let bytes = count.max(1).checked_mul(size_of::<Block>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory that is in use.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = std::ptr::NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count: count.max(1) })
    }
}

#[expect(unsafe_code, reason = "the mapping is seen as blocks here alone")]
impl AsMut<[Block]> for Blocks {
    fn as_mut(&mut self) -> &mut [Block] {
        // SAFETY: the mapping has this size, is owned by this value alone, is aligned to a page, and contains zeros or
        // blocks written before; any content is a valid block.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

#[expect(unsafe_code, reason = "unmaps the mapping of this value")]
impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` with this length and is not used after this.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.count * size_of::<Block>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_zero_aligned_and_writable() {
        let mut blocks = Blocks::map(3).unwrap();
        assert_eq!(blocks.as_mut().len(), 3);
        assert!(blocks.as_mut().as_ptr().is_aligned());
        assert!(blocks.as_mut().iter().all(|block| block.as_ref().iter().all(|number| *number == 0)));
        blocks.as_mut()[2].as_mut()[127] = u64::MAX;
        assert_eq!(blocks.as_mut()[2].as_ref()[127], u64::MAX);
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        assert!(Blocks::map(usize::MAX / 2).is_err());
        assert!(Blocks::map(usize::MAX / 4096).is_err());
    }
}

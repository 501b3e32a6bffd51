//! Unmapping the pages of the program that are not needed any more.
//!
//! Code that runs at the start, from reading flags to making keys, stays mapped afterwards, and the system maps sixteen
//! pages around each touched one. In a large program that is most of the memory of an idle broker. These pages are
//! clean copies of a file, so they can be unmapped at any time; they are mapped again on use, without reading the disk
//! while the system caches the file.

/// Unmaps the program's own code and constants; used pages are mapped again one by one.
///
/// To be called after the start, and in quiet periods after a rush: each page in use costs a minor fault. No effect on
/// systems other than Linux with 64 bits.
pub fn release_program_pages() {
    pages::release();
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[expect(unsafe_code, reason = "neither dl_iterate_phdr nor madvise has a safe wrapper among the crates we use")]
mod pages {
    use std::ffi::{c_int, c_void};
    use std::{ptr, slice};

    /// Has the segments of the program released; the libraries that it loads are shared with other programs anyway.
    pub(crate) fn release() {
        // SAFETY: the callback is called before this returns, does not unwind, and is handed no data.
        unsafe {
            libc::dl_iterate_phdr(Some(release_segments), ptr::null_mut());
        }
    }

    /// The first object reported is the program itself [`dl_iterate_phdr(3)`]; a result other than zero ends the walk
    /// after it.
    unsafe extern "C" fn release_segments(info: *mut libc::dl_phdr_info, _size: usize, _data: *mut c_void) -> c_int {
        // SAFETY: the loader hands out a valid description, whose headers stay as long as the object is loaded.
        let (base, headers) = unsafe {
            let info = &*info;
            (info.dlpi_addr, slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)))
        };
        for header in headers.iter().filter(|header| is_unchanged(header)) {
            release_pages(base + header.p_vaddr, header.p_filesz);
        }
        1
    }

    /// Whether a segment in memory equals the file. Relocated data belongs to a writable segment, even if it is made
    /// read-only later, and would be lost.
    fn is_unchanged(header: &libc::Elf64_Phdr) -> bool {
        header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0
    }

    /// Unmaps the pages that lie in a segment as a whole: the page at either end may be another's, too.
    fn release_pages(start: u64, length: u64) {
        // SAFETY: a question about the system without arguments that point anywhere.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1);
        let first = start.next_multiple_of(page);
        let end = (start + length) / page * page;
        let (Ok(address), Ok(bytes)) = (usize::try_from(first), usize::try_from(end.saturating_sub(first))) else {
            return;
        };
        if bytes > 0 {
            // SAFETY: these pages map a file privately and were never written, so the file has the same bytes, and the
            // next access maps them again [madvise(2), MADV_DONTNEED]. A refusal changes nothing.
            unsafe {
                libc::madvise(ptr::without_provenance_mut(address), bytes, libc::MADV_DONTNEED);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod pages {
    pub(crate) fn release() {}
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use std::{fs, io};

    use super::release_program_pages;

    /// KiB of this program's code that are mapped [proc(5), smaps].
    fn mapped_code() -> io::Result<u64> {
        let program = std::env::current_exe()?;
        let smaps = fs::read_to_string("/proc/self/smaps")?;
        let mut is_ours = false;
        let mut sum = 0;
        for line in smaps.lines() {
            if line.contains(" r-xp ") {
                is_ours = line.ends_with(&*program.to_string_lossy());
            } else if is_ours && let Some(rss) = line.strip_prefix("Rss:") {
                is_ours = false;
                sum += rss.trim().trim_end_matches(" kB").parse::<u64>().map_err(io::Error::other)?;
            }
        }
        Ok(sum)
    }

    #[test]
    fn unmapped_code_returns_when_it_is_called() {
        let before = mapped_code().unwrap();

        release_program_pages();

        let after = mapped_code().unwrap();
        assert!(after < before, "{after} KiB of code are mapped after the release, {before} before");
        assert!(after > 0, "what measures this is code, too");
    }
}

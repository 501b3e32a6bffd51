//! See `tidegate_fuzz::publish`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::publish::fuzz_one(data));

//! See `tidegate_fuzz::cluster_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::cluster_link::fuzz_one(data));

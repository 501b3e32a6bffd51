//! See `tidegate_fuzz::topic_filter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::topic_filter::fuzz_one(data));

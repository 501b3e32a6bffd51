//! See `tidegate_fuzz::proxy_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::proxy_protocol::fuzz_one(data));

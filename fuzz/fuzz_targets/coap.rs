//! See `tidegate_fuzz::coap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::coap::fuzz_one(data));

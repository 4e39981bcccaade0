#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cotangent_tests::fuzz::check("autotune", data));

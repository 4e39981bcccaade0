//! Listing and opening devices.

use std::sync::Arc;

use super::super::{ComputeCapability, CudaDevice, CudaVersion, DriverError};
use super::{Driver, calls, clear, fail, fake_driver, retained, with_fake_driver};

#[test]
fn devices_are_listed_with_what_the_driver_says() {
    with_fake_driver!("devices_are_listed_with_what_the_driver_says");
    let devices = CudaDevice::list().expect("devices");
    assert_eq!(devices.len(), 2);
    let second = &devices[1];
    assert_eq!((second.ordinal, second.name.as_str()), (1, "Fake GPU 1"));
    assert_eq!(second.compute_capability, ComputeCapability { major: 9, minor: 0 });
    assert_eq!(second.driver, CudaVersion { major: 13, minor: 0 });
    assert_eq!((second.multiprocessors, second.l2_bytes), (132, 50 << 20));
    assert_eq!((second.memory_bytes, second.max_shared_bytes), (80 << 30, 227 << 10));
    assert_eq!(second.uuid, [0x81; 16]);
    assert_eq!(retained(), 0, "listing takes no context");
}

#[test]
fn devices_without_a_driver_are_an_error_with_the_loaders_words() {
    let name = "driver::tests::device::devices_without_a_driver_are_an_error_with_the_loaders_words";
    if !fake_driver::in_child(name, Driver::None, &[]) {
        return;
    }
    for error in [CudaDevice::list().expect_err("no driver"), CudaDevice::open(0).expect_err("no driver")] {
        let text = error.to_string();
        assert!(matches!(error, DriverError::NoDriver { .. }), "{text}");
        assert!(text.starts_with("no CUDA driver: ") && text.contains("libcuda.so.1"), "{text}");
    }
}

#[test]
fn devices_of_a_driver_without_any_are_none() {
    with_fake_driver!("devices_of_a_driver_without_any_are_none");
    // The driver says so in cuInit where there is no device at all.
    fail("cuInit", 100);
    assert_eq!(CudaDevice::list(), Ok(vec![]));
    let error = CudaDevice::open(0).expect_err("no device");
    assert_eq!(error, DriverError::NoDevice { ordinal: 0, count: 0 });
    fail("cuInit", 803);
    let error = CudaDevice::list().expect_err("a broken driver").to_string();
    assert!(error.contains("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"), "{error}");
    fail("cuInit", 4321);
    let error = CudaDevice::list().expect_err("a driver of the future").to_string();
    assert!(error.contains("(4321)"), "{error}");
}

#[test]
fn devices_that_are_not_there_are_an_error_with_both_numbers() {
    with_fake_driver!("devices_that_are_not_there_are_an_error_with_both_numbers");
    let error = CudaDevice::open(2).expect_err("two devices, 0 and 1");
    assert_eq!(error.to_string(), "there is no CUDA device 2: the driver shows 2");
}

#[test]
fn devices_below_the_floor_are_an_error_with_both_capabilities() {
    with_fake_driver!(
        "devices_below_the_floor_are_an_error_with_both_capabilities",
        "FAKE_CAPABILITY" = "61"
    );
    let error = CudaDevice::open(0).expect_err("below the floor").to_string();
    assert_eq!(error, "CUDA device 0 (Fake GPU 0) has compute capability 6.1; 7.0 or higher is needed");
    assert_eq!(retained(), 0);
    assert_eq!(CudaDevice::list().expect("listed all the same").len(), 2);
}

#[test]
fn devices_are_opened_once_and_released() {
    with_fake_driver!("devices_are_opened_once_and_released");
    let first = CudaDevice::open(0).expect("a device");
    let again = CudaDevice::open(0).expect("a device");
    let other = CudaDevice::open(1).expect("a device");
    assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
    assert_eq!(retained(), 2);
    drop((first, again));
    assert_eq!(retained(), 1);
    drop(other);
    assert_eq!(retained(), 0);
    drop(CudaDevice::open(0).expect("a device"));
    assert_eq!(retained(), 0);
}

#[test]
fn device_pool_keeps_and_trims() {
    with_fake_driver!("device_pool_keeps_and_trims");
    let device = CudaDevice::open(1).expect("a device");
    clear();
    device.keep_freed(0x1234_5678_9abc).expect("the pool's threshold");
    device.trim(77).expect("a trim");
    let calls = calls();
    assert!(calls.iter().any(|call| call == "cuMemPoolSetAttribute b01 123456789abc"), "{calls:?}");
    assert!(calls.iter().any(|call| call == "cuMemPoolTrimTo b01 4d"), "{calls:?}");
}

//! An application that depends on cotangent.

use cotangent::{ChannelCatBackward, Device, LaunchOptions};

fn main() -> cotangent::Result<()> {
    let device = Device::auto();
    let dy = device.upload(&[0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0])?;
    let dx = device.upload(&[0.0_f32; 4])?;
    let kernel = ChannelCatBackward::<f32>::new(128);
    // SAFETY: two rows of three elements, of which the kernel takes the last two of each.
    unsafe { device.launch(&kernel, (dy.as_ptr(), dx.as_ptr(), 2, 3, 1), &LaunchOptions::new().rows(2))? };
    assert_eq!(dx.to_vec()?, [1.0, 2.0, 4.0, 5.0]);
    println!("ran on {device}");
    Ok(())
}

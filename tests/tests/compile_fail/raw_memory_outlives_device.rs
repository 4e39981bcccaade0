use cotangent::{Device, TensorRef};

fn foreign(pointer: *const f32) -> TensorRef<'static, f32> {
    let device = Device::cpu();
    unsafe { TensorRef::from_raw(&device, pointer, &[4], &[1]).unwrap() }
}

fn main() {
    foreign([0.0; 4].as_ptr());
}

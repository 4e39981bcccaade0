use cotangent::{Device, TensorRef};

fn main() {
    let stream = Device::cpu().stream().unwrap();
    let mut elements = vec![1.0_f32; 4];
    let view = TensorRef::from_slice(&elements, &[4]).unwrap();
    elements[0] = 2.0;
    view.to_vec(&stream).unwrap();
}

use cotangent::{Device, TensorRef};

fn main() {
    let stream = Device::cpu().stream().unwrap();
    let view = {
        let elements = vec![1.0_f32; 4];
        TensorRef::from_slice(&elements, &[4]).unwrap()
    };
    view.to_vec(&stream).unwrap();
}
